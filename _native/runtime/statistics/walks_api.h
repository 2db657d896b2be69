/* Count the distinct columns that breadth-first walks over rows visit. n_walks walks start at evenly spread rows; an
 * entry in column k of row i leads to row k, and a walk that is exhausted continues with the next unvisited row.
 * `found` (int64) receives two numbers per size s, summed over the walks: distinct columns among the first sizes[s]
 * entries read (sizes ascending, positive), and the number of these entries. itype is 0 for int32, 1 for int64.
 * Returns 0, or -1 without memory. */
int asp_walks(int itype, int64_t n_rows, const void *indptr, const void *indices, int64_t n_sizes, const void *sizes,
              int64_t n_walks, void *found);
