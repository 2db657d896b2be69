/* Sampled dense-dense product (SDDMM): vals[p] = alpha * <X[i,:], Y[j,:]> + beta * in[p] for each stored entry p = (i,
 * j).
 *
 * X is n_rows x K and Y n_cols x K, both with contiguous rows (ldx, ldy apart), so the product is X @ Y^T. With
 * n_heads > 1, rows hold n_heads blocks of K values, `head_step` apart, and entry p has n_heads results. Work is
 * divided by nonzeros, also within rows, because every result is written once.
 */
#include "graph_common.h"
#include "kernel_api.h"
#include "matmul.h"
#include "ready.h"

/* Compute the entries [p, p_end) for real values. */
static void sddmm_real(const void *args, int64_t p, int64_t p_end)
{
    const g_sddmm *s = args;
    g_dots_at(s, g_row_of(s->itype, s->indptr, s->n_rows, p), p, p_end);
}

/* Define the variants for complex values, in plain C because they are rare; Y is not conjugated. */
#define G_COMPLEX(R, I)                                                                                 \
    static void sddmm_complex_##R##_##I(const void *args, int64_t p, int64_t p_end)                     \
    {                                                                                                   \
        const g_sddmm *s = args;                                                                        \
        const I *indptr = s->indptr, *indices = s->indices;                                             \
        const R *in = s->in;                                                                            \
        R *out = s->out;                                                                                \
        for (int64_t row = g_row_of(s->itype, indptr, s->n_rows, p); p < p_end; ++row) {                \
            int64_t end = (int64_t)indptr[row + 1] < p_end ? (int64_t)indptr[row + 1] : p_end;          \
            const R *x = (const R *)s->X + 2 * row * s->ldx;                                            \
            for (; p < end; ++p) {                                                                      \
                const R *y = (const R *)s->Y + 2 * (int64_t)indices[p] * s->ldy;                        \
                R re = 0, im = 0;                                                                       \
                for (int64_t k = 0; k < s->K; ++k) {                                                    \
                    re += x[2 * k] * y[2 * k] - x[2 * k + 1] * y[2 * k + 1];                            \
                    im += x[2 * k] * y[2 * k + 1] + x[2 * k + 1] * y[2 * k];                            \
                }                                                                                       \
                R real = (R)s->alpha * re - (R)s->alpha_im * im;                                        \
                R imag = (R)s->alpha * im + (R)s->alpha_im * re;                                        \
                if (in) {                                                                               \
                    R a = in[2 * p], b = in[2 * p + 1];                                                 \
                    real += (R)s->beta * a - (R)s->beta_im * b;                                         \
                    imag += (R)s->beta * b + (R)s->beta_im * a;                                         \
                }                                                                                       \
                out[2 * p] = real;                                                                      \
                out[2 * p + 1] = imag;                                                                  \
            }                                                                                           \
        }                                                                                               \
    }
G_COMPLEX(float, int32_t)
G_COMPLEX(float, int64_t)
G_COMPLEX(double, int32_t)
G_COMPLEX(double, int64_t)
static const g_range_fn sddmm_complex_table[2][2] = {
    {sddmm_complex_float_int32_t, sddmm_complex_float_int64_t},
    {sddmm_complex_double_int32_t, sddmm_complex_double_int64_t},
};

/* Run `work` over all entries on up to n_threads threads; step_ns is the time per four bytes of a row of Y.
 *
 * Rows of doubles take twice as long. The pool takes a job that lasts several times as long as estimated for one whose
 * helper lost its core, and keeps short jobs on one thread afterwards. */
static void share(g_range_fn work, const g_sddmm *args, int64_t width, double step_ns, int n_threads)
{
    const int64_t words = width * asp_element_bytes(args->dtype) / 4;
    const double serial_ns = (double)args->nnz * (double)(words + 16) * step_ns;
    const int64_t least = 1 + (int64_t)(1e4 / (serial_ns / (double)(args->nnz + 1) + 1e-3));
    g_for_items(work, args, args->nnz, least, serial_ns, n_threads);
}

void g_dots_shared(const g_sddmm *s, int n_threads) { share(sddmm_real, s, s->K * s->n_heads, 0.06, n_threads); }

/* Compute SDDMM. dtype 0 f32, 1 f64, 2 c64, 3 c128; itype 0 int32, 1 int64. `scale` holds alpha and beta as (re, im)
 * pairs. `in` may be NULL (beta is not used) or equal to out. n_threads is an upper bound (0: asp_max_threads()). The
 * order of sums does not depend on the number of threads and, with flag 2, not on the address of Y. Returns 0, or -1
 * for an unknown code. */
int asp_sddmm(int dtype, int itype, int64_t n_rows, int64_t n_cols, const void *indptr, const void *indices, int64_t nnz,
              const void *X, int64_t ldx, const void *Y, int64_t ldy, int64_t K, int64_t n_heads, const double *scale, const void *in,
              void *out, int n_threads, int flags)
{
    if (dtype < 0 || dtype > 3 || itype < 0 || itype > 1 || (dtype > 1 && n_heads != 1)) return -1;
    if (n_heads < 1) return 0;
    const g_sddmm args = {.indptr = indptr, .indices = indices, .X = X, .Y = Y, .in = in, .out = out, .n_rows = n_rows, .n_cols = n_cols,
                          .nnz = nnz, .K = K, .ldx = ldx, .ldy = ldy, .n_heads = n_heads, .head_step = K,
                          .alpha = scale[0], .alpha_im = scale[1], .beta = scale[2], .beta_im = scale[3],
                          .dtype = dtype, .itype = itype, .is_fixed = (flags & ASP_FLAG_DETERMINISTIC) != 0};
    if (dtype < 2) g_dots_shared(&args, n_threads);
    else share(sddmm_complex_table[dtype - 2][itype], &args, K, 0.25, n_threads);
    return 0;
}

/* Compute out[p] = vals[p] * <X[i,:], Y[j,:]> for each stored entry p = (i, j); real values (dtype 0, 1), otherwise as
 * asp_sddmm. */
int asp_sddmm_scaled(int dtype, int itype, int64_t n_rows, int64_t n_cols, const void *indptr, const void *indices,
                     const void *X, int64_t ldx, const void *Y, int64_t ldy, int64_t K, const void *vals, void *out,
                     int n_threads, int flags)
{
    if (dtype < 0 || dtype > 1 || itype < 0 || itype > 1) return -1;
    const g_sddmm args = {.indptr = indptr, .indices = indices, .X = X, .Y = Y, .times = vals, .out = out,
                          .n_rows = n_rows, .n_cols = n_cols, .nnz = asp_index_at(itype, indptr, n_rows), .K = K,
                          .ldx = ldx, .ldy = ldy, .n_heads = 1, .head_step = K, .alpha = 1, .dtype = dtype, .itype = itype,
                          .is_fixed = (flags & ASP_FLAG_DETERMINISTIC) != 0};
    g_dots_shared(&args, n_threads);
    return 0;
}

/* Implementation of the precompiled kernels of out[p] = vals[p] * <X[i,:], Y[j,:]>; `at` holds X, Y, out, vals. */
static int ready(int dtype, int64_t ahead, const asp_operand *A, const uintptr_t *at, const int64_t *ld, int64_t K,
                 int64_t n_threads)
{
    const int32_t *indptr = A->pos[1];
    const g_sddmm args = {.indptr = indptr, .indices = A->crd[1], .X = (const void *)at[0], .Y = (const void *)at[1],
                          .times = (const void *)at[3], .out = (void *)at[2], .rows = A->crd[5], .places = A->origin,
                          .ahead = ahead, .n_rows = A->size[0], .n_cols = A->size[1], .nnz = indptr[A->size[0]], .K = K,
                          .ldx = ld[0], .ldy = ld[1], .n_heads = 1, .head_step = K, .alpha = 1, .dtype = dtype,
                          .itype = ASP_I32};
    g_dots_shared(&args, (int)n_threads);
    return 0;
}

#define READY(dtype, ahead)                                                                                        \
    static int ready_##dtype##_##ahead(const asp_operand *A, const uintptr_t *at, const int64_t *ld, int64_t n_j,  \
                                       int64_t n_threads, int64_t chunk)                                           \
    {                                                                                                              \
        (void)chunk;                                                                                               \
        return ready(dtype, ahead, A, at, ld, n_j, n_threads);                                                     \
    }
READY_ALL(READY)

uintptr_t asp_ready_sampled(int dtype, int prefetch) { READY_ADDRESS(dtype, prefetch) }
