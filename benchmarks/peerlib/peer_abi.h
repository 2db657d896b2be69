/* What a shared library must export to be a peer: peers.py --adapter NAME=/path/to/adapter.so
 *
 * The adapter links (or contains) the library to be compared, converts what must be converted in peer_prepare, and
 * is built outside this repository. Arrays stay alive and unchanged between peer_prepare and peer_free.
 */
#include <stdint.h>

/* operation: "spmv", "spmm32", ...; dtype: "float32" or "float64"; indices are int32, rows sorted, no duplicates.
 * NULL: this library cannot run the case. */
void *peer_prepare(const char *operation, const char *dtype, int64_t n_rows, int64_t n_cols, int64_t n_dense_cols,
                   const int32_t *indptr, const int32_t *indices, const void *values, int n_threads);

/* C = A B, both row-major and dense; C is overwritten. */
void peer_run(void *state, const void *B, void *C);

void peer_free(void *state);
