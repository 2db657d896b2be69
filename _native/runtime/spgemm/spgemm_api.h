/* C = A B for A (n_rows x n_inner) and B (n_inner x n_cols), shape = (n_rows, n_inner, n_cols), as compressed rows; dtype
 * and itype codes as elsewhere, itype that of all four index arrays. Returns a job that holds the product, or NULL
 * without memory or for an unknown code; *nnz receives its number of entries. Every entry that SciPy's csr_matmat makes
 * is made, in its order, with its sums. */
void *asp_spgemm_begin(int dtype, int itype, const int64_t *shape, const void *Ap, const void *Aj, const void *Ax,
                       const void *Bp, const void *Bj, const void *Bx, int n_threads, int64_t *nnz);
/* Copy the product out, as index type out_itype, and free the job. Cp has n_rows + 1 entries, Cj and Cx have nnz. */
int asp_spgemm_finish(void *job, int out_itype, void *Cp, void *Cj, void *Cx);
/* Free the job without copying. */
void asp_spgemm_drop(void *job);
