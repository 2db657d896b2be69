/* y[indices[k]] += data[k] * x[i]: A^T x for one dense column.
 *
 * Compiled for the base instruction set on purpose: a fused multiply-add would put the multiplication on the path from
 * one addition to an element of y to the next one to the same element.
 */
#include "kernels.h"

enum { UNROLL_FROM = 24 }; /* nonzeros in a row; for shorter ones the plain loop is faster */

#define DEFINE(tag, itag, R, I)                                                            \
    static void tag##_##itag(const asp_args *args, int64_t begin, int64_t end)             \
    {                                                                                      \
        const I *indptr = args->indptr, *indices = args->indices;                          \
        const R *data = args->data, *x = args->B;                                          \
        R *y = args->C;                                                                    \
        for (int64_t i = begin; i < end; i++) {                                            \
            I k = indptr[i];                                                               \
            const I stop = indptr[i + 1];                                                  \
            if (stop - k >= UNROLL_FROM) {                                                 \
                const R xi = x[i];                                                         \
                for (; k + 4 <= stop; k += 4) {                                            \
                    const R a = data[k] * xi, b = data[k + 1] * xi;                        \
                    const R c = data[k + 2] * xi, d = data[k + 3] * xi;                    \
                    const I ia = indices[k], ib = indices[k + 1];                          \
                    const I ic = indices[k + 2], id = indices[k + 3];                      \
                    y[ia] += a;                                                            \
                    y[ib] += b;                                                            \
                    y[ic] += c;                                                            \
                    y[id] += d;                                                            \
                }                                                                          \
            }                                                                              \
            for (; k < stop; k++) y[indices[k]] += data[k] * x[i];                         \
        }                                                                                  \
    }
#define DEFINE_COMPLEX(tag, itag, R, I)                                                    \
    static void tag##_##itag(const asp_args *args, int64_t begin, int64_t end)             \
    {                                                                                      \
        const I *indptr = args->indptr, *indices = args->indices;                          \
        const R *data = args->data, *x = args->B;                                          \
        for (int64_t i = begin; i < end; i++) {                                            \
            const R re = x[2 * i], im = x[2 * i + 1];                                      \
            const int64_t stop = indptr[i + 1];                                            \
            for (int64_t k = indptr[i]; k < stop; k++) {                                   \
                R *y = (R *)args->C + 2 * (int64_t)indices[k];                             \
                y[0] += data[2 * k] * re - data[2 * k + 1] * im;                           \
                y[1] += data[2 * k] * im + data[2 * k + 1] * re;                           \
            }                                                                              \
        }                                                                                  \
    }
DEFINE(f32, i32, float, int32_t)
DEFINE(f32, i64, float, int64_t)
DEFINE(f64, i32, double, int32_t)
DEFINE(f64, i64, double, int64_t)
DEFINE_COMPLEX(c64, i32, float, int32_t)
DEFINE_COMPLEX(c64, i64, float, int64_t)
DEFINE_COMPLEX(c128, i32, double, int32_t)
DEFINE_COMPLEX(c128, i64, double, int64_t)

const asp_kernel asp_scatter_vector[4][2] = {{f32_i32, f32_i64}, {f64_i32, f64_i64}, {c64_i32, c64_i64}, {c128_i32, c128_i64}};
