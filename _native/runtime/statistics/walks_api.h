/* Breadth-first walks over rows from `n_walks` evenly spread ones, column k of row i leading to row k; where a walk can
 * go no further it goes on with the next row not met. found, int64, two per size: distinct columns among the first
 * sizes[s] entries (ascending, positive) that each walk reads, and how many entries these are; sums over the walks.
 * itype: 0 int32, 1 int64. 0, or -1 when scratch memory could not be had. */
int asp_walks(int itype, int64_t n_rows, const void *indptr, const void *indices, int64_t n_sizes, const void *sizes,
              int64_t n_walks, void *found);
