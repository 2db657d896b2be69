/* 0 when indptr and indices (n_stored of them allotted) are a CSR structure, else 1: indptr does not begin with 0,
 * 2: indptr decreases, 3: indptr ends beyond n_stored, 4: an index outside [0, n_cols). */
int asp_csr_check(int itype, int64_t n_rows, int64_t n_cols, const void *indptr, const void *indices, int64_t n_stored,
                  int n_threads);
/* CSR of A^T (CSC of A), rows in order inside each column. Values have element_bytes 4, 8 or 16. NULL for what is not
 * wanted: data and t_data; perm, of the index type, with t_data[k] = data[perm[k]]. */
int asp_csr_transpose(int element_bytes, int itype, int64_t n_rows, int64_t n_cols, const void *indptr,
                      const void *indices, const void *data, void *t_indptr, void *t_indices, void *t_data, void *perm,
                      int n_threads);
/* target[k] = source[perm[k]] for k < n; element_bytes 4, 8 or 16. */
int asp_gather(int element_bytes, int itype, const void *perm, const void *source, void *target, int64_t n,
               int n_threads);
