/* Packing of CSR arrays into blocks and column panels; pack.c describes the functions. */
int64_t asp_count_blocks(int itype, int64_t n_rows, int64_t n_cols, const void *indptr, const void *indices, int64_t r,
                         int64_t c, void *pos, int n_threads);
int asp_list_blocks(int itype, int64_t n_rows, int64_t n_cols, const void *indptr, const void *indices, int64_t r,
                    int64_t c, int bits, const void *pos, void *crd, int n_threads);
int asp_fill_blocks(int dtype, int itype, int64_t n_rows, int64_t n_cols, const void *indptr, const void *indices,
                    const void *data, int64_t r, int64_t c, int64_t size, int64_t step_i, int64_t step_k, int bits,
                    const void *pos, const void *crd, void *vals, int n_threads);
int asp_count_panels(int itype, int64_t n_rows, int64_t n_cols, const void *indptr, const void *indices, int64_t split,
                     void *pos);
int asp_fill_panels(int dtype, int itype, int64_t n_rows, int64_t n_cols, const void *indptr, const void *indices,
                    const void *data, int64_t split, const void *pos, int bits, void *crd, void *vals);
