/* Comparison of the result of a kernel with that of the default kernel; see agreement.c. */
int asp_rows_agree(int dtype, int itype, int64_t n_rows, int64_t n_cols, const void *indptr, const void *values,
                   const void *found, const void *wanted, double largest);
