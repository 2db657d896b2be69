/* Products of matrices in coordinates: int64 ids of rows and columns in any order, entry p at row[p * step]. Duplicates
 * add up. Sums run in the order of the entries, as in PyTorch. */

/* Convert to compressed rows with int32 indices: starts (n + 1) and columns (nnz), and the position of each entry of the
 * rows in the list, order (nnz). Return 0 if the list is ordered by rows (order is not written), 1 if it is not, and
 * -1 if an id lies outside the n x m matrix or a size does not fit int32. */
int asp_coo_rows(int64_t n, int64_t m, int64_t nnz, const int64_t *row, const int64_t *col, int64_t step,
                 int32_t *starts, int32_t *columns, int32_t *order);
/* Compute C = A B as asp_csr_mm_at, for row ids at `row` and column ids `pair_step` ids behind them. C is not written
 * if the status is not 0. */
int asp_coo_mm_at(int dtype, int64_t n, int64_t m, int64_t nnz, uintptr_t row, int64_t step, int64_t pair_step,
                  uintptr_t values, uintptr_t B, int64_t ldb, uintptr_t C, int64_t n_vecs, int n_threads, int flags);
/* Write the row of each of the nnz entries of n compressed rows with int32 indices to `rows`. */
void asp_entry_rows(int64_t n, uintptr_t indptr, int64_t nnz, uintptr_t rows, int n_threads);
