/* Plain OpenMP SDDMM over CSR, X and Y by rows of n values: out[p] = data[p] * <X[i], Y[k]>. */
#include <stdint.h>

void plain_sddmm(int64_t n_rows, const int32_t *indptr, const int32_t *indices, const REAL *data, const REAL *X,
                 const REAL *Y, REAL *out, int64_t n, int n_threads)
{
#pragma omp parallel for schedule(dynamic, 32) num_threads(n_threads)
    for (int64_t i = 0; i < n_rows; i++)
        for (int32_t p = indptr[i]; p < indptr[i + 1]; p++) {
            const REAL *x = X + i * n, *y = Y + (int64_t)indices[p] * n;
            REAL total = 0;
#pragma omp simd reduction(+ : total)
            for (int64_t j = 0; j < n; j++)
                total += x[j] * y[j];
            out[p] = data[p] * total;
        }
}

void four_sddmm(int64_t n_rows, const int32_t *indptr, const int32_t *indices, const REAL *data, const REAL *X,
                const REAL *Y, REAL *out, int64_t n, int n_threads)
{
#pragma omp parallel for schedule(dynamic, 32) num_threads(n_threads)
    for (int64_t i = 0; i < n_rows; i++) {
        const REAL *x = X + i * n;
        int32_t p = indptr[i];
        for (; p + 4 <= indptr[i + 1]; p += 4) {
            const REAL *a = Y + (int64_t)indices[p] * n, *b = Y + (int64_t)indices[p + 1] * n;
            const REAL *c = Y + (int64_t)indices[p + 2] * n, *d = Y + (int64_t)indices[p + 3] * n;
            REAL sa = 0, sb = 0, sc = 0, sd = 0;
#pragma omp simd reduction(+ : sa, sb, sc, sd)
            for (int64_t j = 0; j < n; j++) {
                sa += x[j] * a[j];
                sb += x[j] * b[j];
                sc += x[j] * c[j];
                sd += x[j] * d[j];
            }
            out[p] = data[p] * sa;
            out[p + 1] = data[p + 1] * sb;
            out[p + 2] = data[p + 2] * sc;
            out[p + 3] = data[p + 3] * sd;
        }
        for (; p < indptr[i + 1]; p++) {
            const REAL *y = Y + (int64_t)indices[p] * n;
            REAL total = 0;
#pragma omp simd reduction(+ : total)
            for (int64_t j = 0; j < n; j++)
                total += x[j] * y[j];
            out[p] = data[p] * total;
        }
    }
}
