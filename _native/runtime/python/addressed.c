/* Products that take addresses as integers; see addressed_api.h. */
#include <stdint.h>
#include <stdlib.h>

#include "common.h"

#include "addressed_api.h"
#include "dense_api.h"
#include "graph_common.h"
#include "matmul_api.h"

int asp_csr_mm_at(int transposed, int dtype, int itype, int64_t n_rows, int64_t n_cols, uintptr_t indptr,
                  uintptr_t indices, uintptr_t data, uintptr_t B, int64_t ldb, uintptr_t C, int64_t n_vecs,
                  int n_threads, int flags)
{
    return (transposed ? asp_csr_t_mm : asp_csr_mm)(
        dtype, itype, n_rows, n_cols, (const void *)indptr, (const void *)indices, (const void *)data, (const void *)B,
        ldb, (void *)C, n_vecs, n_vecs, n_threads, flags);
}

#define SCALED_SUM(T)                                                                         \
    for (int64_t i = 0; i < n; ++i)                                                           \
        for (int64_t j = 0; j < m; ++j) {                                                     \
            T *at = (T *)C + i * m + j;                                                       \
            *at = (T)alpha * *at;                                                             \
            if (base) *at += (T)beta * ((const T *)base)[i * row_step + j * column_step];     \
        }

int asp_scaled_sum_at(int dtype, int64_t n, int64_t m, uintptr_t C, double alpha, uintptr_t base, int64_t row_step,
                      int64_t column_step, double beta)
{
    if (dtype == 0) {
        SCALED_SUM(float)
    } else if (dtype == 1) {
        SCALED_SUM(double)
    } else {
        return -1;
    }
    return 0;
}

int asp_csr_rows_at(int dtype, int itype, int64_t n_rows, int64_t n_cols, uintptr_t indptr, uintptr_t indices,
                    uintptr_t data, uintptr_t B, int64_t ldb, int64_t n_b, uintptr_t C, int n_threads, int flags)
{
    if (dtype < 0 || dtype > 1) return -1;
    const int64_t width = dtype == 0 ? 4 : 8;
    for (int64_t b = 0; b < n_b; ++b) {
        const int status = asp_csr_mm(dtype, itype, n_rows, n_cols, (const void *)indptr, (const void *)indices,
                                      (const void *)data, (const char *)B + b * ldb * width, 1,
                                      (char *)C + b * n_rows * width, 1, 1, n_threads, flags);
        if (status) return status;
    }
    return 0;
}

int asp_sddmm_at(int dtype, int itype, int64_t n_rows, int64_t n_cols, uintptr_t indptr, uintptr_t indices, int64_t nnz,
                 uintptr_t X, int64_t ldx, uintptr_t Y, int64_t row_step, int64_t column_step, int64_t K, double alpha,
                 double beta, uintptr_t in, uintptr_t out, uintptr_t indices_out, int n_threads)
{
    if (dtype < 0 || dtype > 1 || itype < 0 || itype > 1) return -1;
    const int64_t width = dtype == 0 ? 4 : 8;
    void *copy = NULL;
    if (K > 1 && row_step != 1) {
        if (!(copy = malloc((size_t)(n_cols * K * width) + 1))) return ASP_NO_MEMORY;
        const int status = asp_dense_rows((int)width, n_cols, K, (const void *)Y, column_step, row_step, copy, K, n_threads);
        if (status) {
            free(copy);
            return status;
        }
        column_step = K;
    }
    const g_sddmm args = {.indptr = (const void *)indptr, .indices = (const void *)indices, .X = (const void *)X,
                          .Y = copy ? copy : (const void *)Y, .in = (const void *)in,
                          .out = (void *)out, .indices_out = (void *)indices_out, .n_rows = n_rows, .n_cols = n_cols,
                          .nnz = nnz, .K = K, .ldx = ldx, .ldy = column_step, .n_heads = 1, .head_step = K,
                          .alpha = alpha, .beta = beta, .dtype = dtype, .itype = itype};
    g_dots_shared(&args, n_threads);
    free(copy);
    return 0;
}
