/* Entries of a sparse operand of any order become the levels of a format; see levels.c. `coords[d]` holds, entry by
 * entry, the index that level d is a part of; `is_outer`: its blocks of `split`, else its place in the block. Entries
 * are sorted by the first n_sorted levels, stably. */
typedef struct {
    int64_t n_levels, n_sorted, nnz;
    int itype, n_threads;
    const void *coords[12];
    int64_t split[12], extent[12];
    int is_outer[12];
    int kind[12]; /* 0 uncompressed, 1 compressed, 2 nonunique: every entry listed, 3 singleton: inside of that */
} asp_level_order;
typedef struct asp_sorted asp_sorted;
/* NULL: no memory, or more than 2^32 - 2 entries, or coordinates of more than 127 bits together. n_listed[d]: positions
 * that level d has, if it is not uncompressed; *in_order: the entries came sorted. */
asp_sorted *asp_sort_entries(const asp_level_order *order, int64_t *n_listed, int *in_order);
/* Arrays of the levels (pos zeroed before, of pos_bits; crd of crd_bits), NULL for those that have none; the entry that
 * comes q-th (pos_bits) and its position in the last level, both NULL where nobody asks. */
void asp_write_levels(const asp_sorted *sorted, int pos_bits, void *const *pos, int crd_bits, void *const *crd,
                      void *numbers, int64_t *positions);
void asp_free_entries(asp_sorted *sorted);
/* to[positions[q]] += values[numbers[q]], numbers NULL: q. Types: 0 float, 1 double; of numbers: 0 int32, 1 int64. */
void asp_add_at(int dtype, int itype, int64_t n, const void *values, const void *numbers, const int64_t *positions,
                void *to);
