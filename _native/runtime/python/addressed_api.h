/* Products with addresses as integers, as tensors hand them out: a pointer object for each of them costs a caller in
 * Python more than the product of two small matrices. Otherwise as asp_csr_mm, asp_csr_t_mm and asp_sddmm. */

/* C = A B, or A^T B when `transposed`. */
int asp_csr_mm_at(int transposed, int dtype, int itype, int64_t n_rows, int64_t n_cols, uintptr_t indptr,
                  uintptr_t indices, uintptr_t data, uintptr_t B, int64_t ldb, uintptr_t C, int64_t n_vecs,
                  int n_threads, int flags);
/* C = alpha C + beta base for n x m C without gaps; element (i, j) of base lies at i * row_step + j * column_step, and
 * base 0 is not read. One thread, real values. */
int asp_scaled_sum_at(int dtype, int64_t n, int64_t m, uintptr_t C, double alpha, uintptr_t base, int64_t row_step,
                      int64_t column_step, double beta);
/* C = B A^T for the n_b rows of B, ldb apart, one by one: rows of C lie n_rows apart; real values. */
int asp_csr_rows_at(int dtype, int itype, int64_t n_rows, int64_t n_cols, uintptr_t indptr, uintptr_t indices,
                    uintptr_t data, uintptr_t B, int64_t ldb, int64_t n_b, uintptr_t C, int n_threads, int flags);
/* out[p] = alpha <X[i,:], Y[:,j]> + beta in[p] for each stored entry p = (i, j); real values; element (k, j) of Y lies
 * at k * row_step + j * column_step. `in` 0 means beta 0, and it may be out; indices_out, unless 0, takes a copy of
 * the indices. */
int asp_sddmm_at(int dtype, int itype, int64_t n_rows, int64_t n_cols, uintptr_t indptr, uintptr_t indices, int64_t nnz,
                 uintptr_t X, int64_t ldx, uintptr_t Y, int64_t row_step, int64_t column_step, int64_t K, double alpha,
                 double beta, uintptr_t in, uintptr_t out, uintptr_t indices_out, int n_threads);
