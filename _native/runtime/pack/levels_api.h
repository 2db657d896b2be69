/* Description of the entries of a sparse operand of any order and of the levels they are converted to; see levels.c.
 * coords[d] holds the index, entry by entry, that level d is derived from: with is_outer[d] its quotient by split[d],
 * else its remainder. Entries are sorted stably by the first n_sorted levels. */
typedef struct {
    int64_t n_levels, n_sorted, nnz;
    int itype, n_threads;
    const void *coords[12];
    int64_t split[12], extent[12];
    int is_outer[12];
    /* 0 uncompressed, 1 compressed, 2 nonunique: every entry is listed, 3 singleton: below a nonunique level */
    int kind[12];
} asp_level_order;
typedef struct asp_sorted asp_sorted;
/* Sort the entries. Returns NULL without memory, for more than 2^32 - 2 entries, or for coordinates of more than 127
 * bits together. n_listed[d] receives the number of positions of level d if it is not uncompressed; *in_order, whether
 * the entries were sorted already. */
asp_sorted *asp_sort_entries(const asp_level_order *order, int64_t *n_listed, int *in_order);
/* Write the arrays of the levels; NULL for levels without one. `pos` (pos_bits wide) must be zero before; crd is
 * crd_bits wide. `numbers` (pos_bits) receives the entry that comes q-th and `positions` its position in the last
 * level; either may be NULL. */
void asp_write_levels(const asp_sorted *sorted, int pos_bits, void *const *pos, int crd_bits, void *const *crd,
                      void *numbers, int64_t *positions);
void asp_free_entries(asp_sorted *sorted);
/* Compute to[positions[q]] += values[numbers[q]]; numbers NULL means q. dtype: 0 float, 1 double; itype of numbers: 0
 * int32, 1 int64. */
void asp_add_at(int dtype, int itype, int64_t n, const void *values, const void *numbers, const int64_t *positions,
                void *to);
