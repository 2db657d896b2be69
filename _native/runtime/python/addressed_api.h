/* Products that take addresses as integers, as tensors provide them. Creating a pointer object for each address would
 * cost a Python caller more than the product of two small matrices. Otherwise as asp_csr_mm, asp_csr_t_mm and
 * asp_sddmm. */

/* Compute C = A B, or A^T B if `transposed`. */
int asp_csr_mm_at(int transposed, int dtype, int itype, int64_t n_rows, int64_t n_cols, uintptr_t indptr,
                  uintptr_t indices, uintptr_t data, uintptr_t B, int64_t ldb, uintptr_t C, int64_t n_vecs,
                  int n_threads, int flags);
/* Compute C = alpha C + beta base for an n x m C without gaps. Element (i, j) of base is at i * row_step + j *
 * column_step; base 0 is not read. One thread, real values. */
int asp_scaled_sum_at(int dtype, int64_t n, int64_t m, uintptr_t C, double alpha, uintptr_t base, int64_t row_step,
                      int64_t column_step, double beta);
/* Compute C = B A^T for the n_b rows of B, ldb apart, one by one; rows of C are n_rows apart. Real values. */
int asp_csr_rows_at(int dtype, int itype, int64_t n_rows, int64_t n_cols, uintptr_t indptr, uintptr_t indices,
                    uintptr_t data, uintptr_t B, int64_t ldb, int64_t n_b, uintptr_t C, int n_threads, int flags);
/* Compute out[p] = alpha <X[i,:], Y[:,j]> + beta in[p] for each stored entry p = (i, j); real values. Element (k, j)
 * of Y is at k * row_step + j * column_step. `in` 0 means beta 0; `in` may equal out. indices_out, unless 0, receives
 * a copy of the indices. */
int asp_sddmm_at(int dtype, int itype, int64_t n_rows, int64_t n_cols, uintptr_t indptr, uintptr_t indices, int64_t nnz,
                 uintptr_t X, int64_t ldx, uintptr_t Y, int64_t row_step, int64_t column_step, int64_t K, double alpha,
                 double beta, uintptr_t in, uintptr_t out, uintptr_t indices_out, int n_threads);
