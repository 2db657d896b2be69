/* Compute C = A B for CSR matrices A (n_rows x n_inner) and B (n_inner x n_cols); shape = (n_rows, n_inner, n_cols).
 * itype is the index type of all four index arrays. `solver` is the way to accumulate rows, which changes nothing but
 * time and memory: 0 by classes of rows, 1 an accumulator per column, 2 a hash table, 3 copies of single rows. Returns
 * a job that holds the product, or NULL without memory or for an unknown code; *nnz receives its number of entries. The
 * entries are those of SciPy's csr_matmat, in the same order and with the same sums. */
void *asp_spgemm_begin(int dtype, int itype, const int64_t *shape, const void *Ap, const void *Aj, const void *Ax,
                       const void *Bp, const void *Bj, const void *Bx, int n_threads, int solver, int64_t *nnz);
/* Estimate the costs of the product of two such patterns. counts has a pair (rows, multiplications) for all rows that
 * are not empty and for those that each of the three ways serves by class; ns has the estimated nanoseconds on one
 * thread by class and by each way alone. Returns ASP_OK, or ASP_BAD_CODE for an unknown code. */
int asp_spgemm_costs(int dtype, int itype, const int64_t *shape, const void *Ap, const void *Aj, const void *Bp,
                     const void *Bj, int64_t *counts, double *ns);
/* Let the next array that the calling thread makes in memory of the output allocator take over the product's column
 * indices (part 0, of type itype) or its values (part 1), without a copy. */
void asp_spgemm_hand_over(void *job, int part);
/* Write the product with index type out_itype and free the job. Cp has n_rows + 1 elements, Cj and Cx have nnz; a part
 * that was handed over is not copied. Returns ASP_OK, or ASP_BAD_CODE for an index type narrower than the operands'. */
int asp_spgemm_finish(void *job, int out_itype, void *Cp, void *Cj, void *Cx);
/* Free the job without copying. */
void asp_spgemm_drop(void *job);
