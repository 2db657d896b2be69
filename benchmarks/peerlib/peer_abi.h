/* Functions that a shared library must export to be a peer: peers.py --adapter NAME=/path/to/adapter.so
 *
 * The adapter links (or contains) the library to be compared, converts operands in peer_prepare, and is built outside
 * this repository. Arrays stay alive and unchanged between peer_prepare and peer_free.
 */
#include <stdint.h>

/* operation: "spmv", "spmm32", ...; dtype: "float32" or "float64"; indices are int32, rows sorted, no duplicates.
 * NULL: this library cannot run the case. */
void *peer_prepare(const char *operation, const char *dtype, int64_t n_rows, int64_t n_cols, int64_t n_dense_cols,
                   const int32_t *indptr, const int32_t *indices, const void *values, int n_threads);

/* C = A B, both row-major and dense; C is overwritten. */
void peer_run(void *state, const void *B, void *C);

/* Optional, for operation "sddmm<columns>" after peer_prepare: values[p] = A's value p times <X[i], Y[k]> for entry
 * p = (i, k); X (n_rows x n_dense_cols) and Y (n_cols x n_dense_cols) row-major. */
void peer_run_sampled(void *state, const void *X, const void *Y, void *values);

/* Optional, for operation "mttkrp<rank>[@mode]": coords is n_modes x nnz, sorted by the first mode, then the second ...,
 * no duplicates. M (shape[mode] x rank) is overwritten; factors[n] is shape[n] x rank, row-major, the mode's own too. */
void *peer_prepare_tensor(const char *operation, const char *dtype, int64_t n_modes, const int64_t *shape, int64_t nnz,
                          const int32_t *coords, const void *values, int64_t rank, int64_t mode, int n_threads);
void peer_run_tensor(void *state, const void *const *factors, void *M);

void peer_free(void *state);
