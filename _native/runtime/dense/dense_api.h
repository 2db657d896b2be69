/* Compute to[i * ld + j] = from[i * row_step + j * column_step] for i < n_rows, j < n_cols: a row-major copy of a
 * dense matrix of any layout. Steps and ld count elements of item_bytes (4, 8 or 16). n_threads is an upper bound (0:
 * asp_max_threads()). Returns 0, or 1 for another item_bytes. */
int asp_dense_rows(int item_bytes, int64_t n_rows, int64_t n_cols, const void *from, int64_t row_step,
                   int64_t column_step, void *to, int64_t ld, int n_threads);
