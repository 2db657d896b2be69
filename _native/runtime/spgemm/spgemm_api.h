/* Compute C = A B for CSR matrices A (n_rows x n_inner) and B (n_inner x n_cols); shape = (n_rows, n_inner, n_cols).
 * itype is the index type of all four index arrays. Returns a job that holds the product, or NULL without memory or
 * for an unknown code; *nnz receives its number of entries. The entries are those of SciPy's csr_matmat, in the same
 * order and with the same sums. */
void *asp_spgemm_begin(int dtype, int itype, const int64_t *shape, const void *Ap, const void *Aj, const void *Ax,
                       const void *Bp, const void *Bj, const void *Bx, int n_threads, int64_t *nnz);
/* Copy the product out with index type out_itype and free the job. Cp has n_rows + 1 elements, Cj and Cx have nnz.
 * Returns ASP_OK, or ASP_BAD_CODE for an index type narrower than the operands'. */
int asp_spgemm_finish(void *job, int out_itype, void *Cp, void *Cj, void *Cx);
/* Free the job without copying. */
void asp_spgemm_drop(void *job);
