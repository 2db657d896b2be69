/* Selection of compressed rows; select_rows.c describes the functions. */
int64_t asp_count_selected(int itype, int64_t n_rows, const void *indptr, int64_t n_stored, const int64_t *numbers,
                           int64_t first, int64_t step, int64_t n, void *to_indptr);
int asp_copy_selected(int itype, int element_bytes, int64_t n_rows, const void *indptr, const void *indices, const void *data,
                      const int64_t *numbers, int64_t first, int64_t step, int64_t n, const void *to_indptr,
                      void *to_indices, void *to_data, int n_threads);
