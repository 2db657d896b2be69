/* Sums, differences and elementwise products of two matrices; merge_rows.c describes the functions. */
int64_t asp_merge_rows(int dtype, int itype, int operation, int64_t n_rows, const uintptr_t *left, const uintptr_t *right,
                       void *to_indptr, void *loose_indices, void *loose_data, int n_threads);
void asp_pack_merged(int element_bytes, int itype, int64_t n_rows, const void *left_indptr, const void *right_indptr,
                     const void *loose_indices, const void *loose_data, const void *to_indptr, void *to_indices,
                     void *to_data, int n_threads);
