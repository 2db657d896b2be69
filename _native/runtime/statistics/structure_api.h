/* Validate a CSR structure whose index array holds n_stored elements. Returns 0 if it is valid, 1 if indptr does not
 * begin with 0, 2 if indptr decreases, 3 if indptr ends beyond n_stored, 4 if an index lies outside [0, n_cols). */
int asp_csr_check(int itype, int64_t n_rows, int64_t n_cols, const void *indptr, const void *indices, int64_t n_stored,
                  int n_threads);
/* Copy indptr (n_rows + 1), indices and values of a CSR matrix, bytes[i] bytes from from[i] to to[i], on at most
 * n_threads threads (0: asp_max_threads()); return the fault of the copy as asp_csr_check does, of all copied indices. */
int asp_csr_copy(int itype, int64_t n_rows, int64_t n_cols, const uintptr_t *from, const uintptr_t *to,
                 const int64_t *bytes, int n_threads);
/* Compute the CSR form of A^T (the CSC form of A), with rows in order inside each column. Values have element_bytes
 * 1, 2, 4, 8 or 16. `data` and t_data may be NULL, as may perm (index type), which receives t_data[k] = data[perm[k]]. */
int asp_csr_transpose(int element_bytes, int itype, int64_t n_rows, int64_t n_cols, const void *indptr,
                      const void *indices, const void *data, void *t_indptr, void *t_indices, void *t_data, void *perm,
                      int n_threads);
/* Compute target[k] = source[perm[k]] for k < n; element_bytes is 4, 8 or 16. */
int asp_gather(int element_bytes, int itype, const void *perm, const void *source, void *target, int64_t n,
               int n_threads);
