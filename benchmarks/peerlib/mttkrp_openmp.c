/* Plain OpenMP MTTKRP over CSF for orders 3 to 5, n columns: the sum below a node is multiplied once by its factor row. */
#include <stdint.h>
#include <string.h>

enum { MAX_COLUMNS = 512 };

static inline void leaves(const int32_t *ids, const REAL *values, const REAL *F, int32_t p, int32_t end, REAL *sum, int64_t n)
{
    for (int64_t j = 0; j < n; j++) sum[j] = 0;
    for (; p < end; p++) {
        const REAL *row = F + (int64_t)ids[p] * n;
#pragma omp simd
        for (int64_t j = 0; j < n; j++) sum[j] += values[p] * row[j];
    }
}

static inline void times(REAL *restrict to, const REAL *F, int32_t id, const REAL *restrict below, int64_t n)
{
    const REAL *row = F + (int64_t)id * n;
#pragma omp simd
    for (int64_t j = 0; j < n; j++) to[j] += row[j] * below[j];
}

void plain_mttkrp3(int64_t n_nodes, int64_t n_rows, const int32_t *i0, const int32_t *i1, const int32_t *i2,
                   const int32_t *p0, const int32_t *p1, const REAL *values, const REAL *F1, const REAL *F2, REAL *M,
                   int64_t n, int n_threads)
{
    memset(M, 0, n_rows * n * sizeof(REAL));
#pragma omp parallel for schedule(dynamic, 32) num_threads(n_threads)
    for (int64_t r = 0; r < n_nodes; r++) {
        REAL a[MAX_COLUMNS], *row = M + (int64_t)i0[r] * n;
        for (int32_t f = p0[r]; f < p0[r + 1]; f++) {
            leaves(i2, values, F2, p1[f], p1[f + 1], a, n);
            times(row, F1, i1[f], a, n);
        }
    }
}

void plain_mttkrp4(int64_t n_nodes, int64_t n_rows, const int32_t *i0, const int32_t *i1, const int32_t *i2,
                   const int32_t *i3, const int32_t *p0, const int32_t *p1, const int32_t *p2, const REAL *values,
                   const REAL *F1, const REAL *F2, const REAL *F3, REAL *M, int64_t n, int n_threads)
{
    memset(M, 0, n_rows * n * sizeof(REAL));
#pragma omp parallel for schedule(dynamic, 32) num_threads(n_threads)
    for (int64_t r = 0; r < n_nodes; r++) {
        REAL a[MAX_COLUMNS], b[MAX_COLUMNS], *row = M + (int64_t)i0[r] * n;
        for (int32_t f = p0[r]; f < p0[r + 1]; f++) {
            for (int64_t j = 0; j < n; j++) b[j] = 0;
            for (int32_t g = p1[f]; g < p1[f + 1]; g++) {
                leaves(i3, values, F3, p2[g], p2[g + 1], a, n);
                times(b, F2, i2[g], a, n);
            }
            times(row, F1, i1[f], b, n);
        }
    }
}

void plain_mttkrp5(int64_t n_nodes, int64_t n_rows, const int32_t *i0, const int32_t *i1, const int32_t *i2,
                   const int32_t *i3, const int32_t *i4, const int32_t *p0, const int32_t *p1, const int32_t *p2,
                   const int32_t *p3, const REAL *values, const REAL *F1, const REAL *F2, const REAL *F3,
                   const REAL *F4, REAL *M, int64_t n, int n_threads)
{
    memset(M, 0, n_rows * n * sizeof(REAL));
#pragma omp parallel for schedule(dynamic, 32) num_threads(n_threads)
    for (int64_t r = 0; r < n_nodes; r++) {
        REAL a[MAX_COLUMNS], b[MAX_COLUMNS], c[MAX_COLUMNS], *row = M + (int64_t)i0[r] * n;
        for (int32_t f = p0[r]; f < p0[r + 1]; f++) {
            for (int64_t j = 0; j < n; j++) c[j] = 0;
            for (int32_t g = p1[f]; g < p1[f + 1]; g++) {
                for (int64_t j = 0; j < n; j++) b[j] = 0;
                for (int32_t h = p2[g]; h < p2[g + 1]; h++) {
                    leaves(i4, values, F4, p3[h], p3[h + 1], a, n);
                    times(b, F3, i3[h], a, n);
                }
                times(c, F2, i2[g], b, n);
            }
            times(row, F1, i1[f], c, n);
        }
    }
}
