/* Integer statistics of a sparsity pattern; counts.c describes the functions and the layout of their int64 results. */
int asp_column_length_counts(int itype, int64_t n_rows, int64_t n_cols, const void *indptr, const void *indices,
                             void *found);
int64_t asp_distinct_columns(int itype, int64_t n_cols, const void *indices, int64_t nnz, int64_t n_entries,
                             int64_t n_windows);
int asp_pattern_counts(int itype, int64_t n_rows, int64_t n_cols, const void *indptr, const void *indices, int64_t n_sample,
                       void *lengths, void *sample, int n_threads);
