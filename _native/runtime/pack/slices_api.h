/* Packing of CSR arrays into slices; pack_slices.c describes the functions and arrays. */
int64_t asp_slices_lay_out(int itype, int64_t n_rows, int64_t n_cols, const void *indptr, const void *indices,
                           int64_t lanes, int64_t sigma, int diagonals, int bits, int32_t *first, int32_t *rows,
                           void *pos, int64_t *begin, int64_t *what, int n_threads);
int asp_slices_fill(int dtype, int itype, int64_t n_rows, int64_t n_cols, const void *indptr, const void *indices,
                    const void *data, int64_t lanes, int bits, const int32_t *first, const int32_t *rows,
                    const void *pos, const int64_t *begin, const int64_t *what, int crd_known, void *crd, void *vals,
                    int n_threads);
