/* Plain OpenMP CSR products without tuning: the "plain C" peers.
 *
 * REAL is float or double; VECTOR is its 64-byte vector (the compiler splits it if registers are narrower).
 * plain_*: one dynamic loop over rows, C row in memory.  tiled_*: the C row of a column tile stays in registers.
 */
#include <stdint.h>
#include <string.h>

typedef REAL vector __attribute__((vector_size(64), aligned(sizeof(REAL)), may_alias));
enum { LANES = 64 / sizeof(REAL) };

void plain_spmv(int64_t n_rows, const int32_t *indptr, const int32_t *indices, const REAL *data,
                const REAL *x, REAL *y, int n_threads)
{
#pragma omp parallel for schedule(dynamic, 128) num_threads(n_threads)
    for (int64_t i = 0; i < n_rows; i++) {
        REAL total = 0;
        for (int32_t p = indptr[i]; p < indptr[i + 1]; p++)
            total += data[p] * x[indices[p]];
        y[i] = total;
    }
}

void plain_spmm(int64_t n_rows, const int32_t *indptr, const int32_t *indices, const REAL *data,
                const REAL *B, REAL *C, int64_t n, int n_threads)
{
#pragma omp parallel for schedule(dynamic, 32) num_threads(n_threads)
    for (int64_t i = 0; i < n_rows; i++) {
        REAL *restrict row = C + i * n;
        memset(row, 0, n * sizeof(REAL));
        for (int32_t p = indptr[i]; p < indptr[i + 1]; p++) {
            const REAL a = data[p], *restrict b = B + (int64_t)indices[p] * n;
            for (int64_t j = 0; j < n; j++)
                row[j] += a * b[j];
        }
    }
}

/* One row, columns [j, j + V * LANES): V vectors of C in registers over the whole row of A. */
#define DEFINE_TILE(V)                                                                                     \
    static inline void tile_##V(int64_t first, int64_t last, const int32_t *indices, const REAL *data,     \
                                const REAL *B, REAL *row, int64_t n, int64_t j)                            \
    {                                                                                                      \
        vector acc[V];                                                                                     \
        _Pragma("GCC unroll 16") for (int v = 0; v < V; v++) acc[v] = (vector){0};                         \
        for (int64_t p = first; p < last; p++) {                                                           \
            const REAL *b = B + (int64_t)indices[p] * n + j;                                               \
            _Pragma("GCC unroll 16") for (int v = 0; v < V; v++)                                           \
                acc[v] += data[p] * *(const vector *)(b + v * LANES);                                      \
        }                                                                                                  \
        _Pragma("GCC unroll 16") for (int v = 0; v < V; v++) *(vector *)(row + j + v * LANES) = acc[v];    \
    }

DEFINE_TILE(1)
DEFINE_TILE(2)
DEFINE_TILE(4)
DEFINE_TILE(8)

void tiled_spmm(int64_t n_rows, const int32_t *indptr, const int32_t *indices, const REAL *data,
                const REAL *B, REAL *C, int64_t n, int n_threads)
{
#pragma omp parallel for schedule(dynamic, 32) num_threads(n_threads)
    for (int64_t i = 0; i < n_rows; i++) {
        REAL *row = C + i * n;
        const int64_t first = indptr[i], last = indptr[i + 1];
        int64_t j = 0;
        for (; j + 8 * LANES <= n; j += 8 * LANES) tile_8(first, last, indices, data, B, row, n, j);
        for (; j + 4 * LANES <= n; j += 4 * LANES) tile_4(first, last, indices, data, B, row, n, j);
        for (; j + 2 * LANES <= n; j += 2 * LANES) tile_2(first, last, indices, data, B, row, n, j);
        for (; j + 1 * LANES <= n; j += 1 * LANES) tile_1(first, last, indices, data, B, row, n, j);
        for (; j < n; j++) {
            REAL total = 0;
            for (int64_t p = first; p < last; p++)
                total += data[p] * B[(int64_t)indices[p] * n + j];
            row[j] = total;
        }
    }
}
