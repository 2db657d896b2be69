/* Generated kernels for x86-64 with AVX-512 (F, VL, DQ, BW), written by tools/shipped_kernels.py: do not edit. */
#include "common.h"
#include "shipped.h"

#if ASP_X86
#include <immintrin.h>
#ifdef __clang__
#pragma clang attribute push(__attribute__((target("avx512f,avx512vl,avx512dq,avx512bw,avx2,fma,bmi,bmi2,popcnt"))), apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx512f,avx512vl,avx512dq,avx512bw,avx2,fma,bmi,bmi2,popcnt")
#endif

/* autosparse kernel
 * i1:U,k1:C,i0:U,k0:U | i=3,k=3 | bits=16; loops i1 k1 i0 k0, parallel i1
 * float64, indices int64, avx512; unroll 1, prefetch 0
 *
 * C[i] += A[i,k] * B[k]    # A: i1:U,k1:C,i0:U,k0:U
 * parallel for i1 in 0..ceil(n_i / 3):
 *   p_i1 = 0 * ceil(n_i / 3) + i1
 *   accumulate C[i] (zero, check finite):
 *     for p_k1 in k1_pos[p_i1]..: k1 = k1_crd[p_k1]
 *       block [i0,k0] lanes k0: C[i] += A[i,k] * B[k]
 */
typedef void (*asp_task)(void *context, int64_t begin, int64_t end);
typedef int (*asp_parallel_function)(asp_task task, void *context, int64_t n_items, int64_t min_items,
                                     int64_t max_items, int n_threads, double serial_ns);
typedef struct {
    int64_t size[6];            /* extents of the indices, the sparse operand's first */
    const void *pos[12], *crd[12]; /* by depth of the level */
    const void *vals;
    int64_t n_positions[12];     /* of each level; the last level's number the values */
    int64_t sorted;             /* bit d: the level at depth d lists ascending coordinates */
    asp_parallel_function parallel; /* NULL: one thread */
    const void *origin, *repeats; /* of structures: entry at each position, next entry at the same one */
    void *(*take)(size_t bytes);  /* work space, and back */
    void (*give)(void *elements, size_t bytes);
} asp_operand;
typedef struct {
    const asp_operand *A;
    uintptr_t B, C;
    int64_t ldB, ldC, n_j, n_threads, chunk;
} asp_call;
typedef double f64x1;
static inline f64x1 load_f64x1(const double *p) { return *p; }
static inline void store_f64x1(double *p, f64x1 v) { *p = v; }
static inline double sum_f64x1(f64x1 v) { return v; }
static inline f64x1 load_part_f64x1(const double *p, int64_t n)
{
    f64x1 v = {0};
    for (int lane = 0; lane < 1 && lane < n; lane++)
        v = p[lane];
    return v;
}
static inline void store_part_f64x1(double *p, f64x1 v, int64_t n)
{
    for (int lane = 0; lane < 1 && lane < n; lane++)
        p[lane] = v;
}
/* Reads past the end give the last value: it meets a padded zero. */
static inline f64x1 load_clamped_f64x1(const double *p, int64_t k, int64_t n)
{
    f64x1 v;
    if (k + 1 <= n)
        return load_f64x1(p + k);
    for (int lane = 0; lane < 1; lane++)
        v = p[k + lane < n ? k + lane : n - 1];
    return v;
}
/* First of n iterations at which the share `part` of n_parts begins: chunk iterations each, or equal
 * numbers of entries and iterations. */
static int64_t asp_boundary(const int64_t *pos, int64_t n, int64_t chunk, int64_t part, int64_t n_parts)
{
    if (part >= n_parts)
        return n;
    if (chunk > 0)
        return part * chunk;
    if (!pos)
        return n * part / n_parts;
    const double wanted = ((double)(pos[n] - pos[0]) + 2.0 * (double)n) * (double)part / (double)n_parts;
    int64_t low = 0, high = n;
    while (low < high) {
        const int64_t middle = (low + high) / 2;
        if ((double)(pos[middle] - pos[0]) + 2.0 * (double)middle < wanted)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}
typedef struct {
    const asp_call *call;
    int64_t n, n_parts;
    const int64_t *weights;
    int bad;
} task_context_0;
static void task_0(void *context, int64_t part, int64_t end_part)
{
    task_context_0 *x = context;
    const asp_call *call = x->call;
    const int64_t begin = asp_boundary(x->weights, x->n, call->chunk, part, x->n_parts);
    const int64_t end = asp_boundary(x->weights, x->n, call->chunk, end_part, x->n_parts);
    f64x1 check_1 = {0};
    const asp_operand *A = call->A;
    const int64_t n_i = A->size[0];
    const int64_t n_k = A->size[1];
    const int64_t *restrict k1_pos = A->pos[1];
    const uint16_t *restrict k1_crd = A->crd[1];
    const double *restrict vals = A->vals;
    const double *restrict B_ = (const double *)call->B;
    double *restrict C_ = (double *)call->C;
    for (int64_t i1 = begin; i1 < end; i1++) {
        const int64_t p_i1 = i1;
        {
            f64x1 sum_i0_0 = (f64x1){0};
            f64x1 sum_i0_1 = (f64x1){0};
            f64x1 sum_i0_2 = (f64x1){0};
            int64_t p_k1 = k1_pos[p_i1];
            const int64_t end_k1 = k1_pos[p_i1 + 1];
            for (; p_k1 < end_k1; p_k1++) {
                const int64_t k1 = k1_crd[p_k1];
                const f64x1 b_k0_0 = load_clamped_f64x1(B_, k1 * 3, n_k);
                sum_i0_0 += load_f64x1(vals + p_k1 * 9) * b_k0_0;
                sum_i0_1 += load_f64x1(vals + p_k1 * 9 + 3) * b_k0_0;
                sum_i0_2 += load_f64x1(vals + p_k1 * 9 + 6) * b_k0_0;
                const f64x1 b_k0_1 = load_clamped_f64x1(B_, k1 * 3 + 1, n_k);
                sum_i0_0 += load_f64x1(vals + p_k1 * 9 + 1) * b_k0_1;
                sum_i0_1 += load_f64x1(vals + p_k1 * 9 + 4) * b_k0_1;
                sum_i0_2 += load_f64x1(vals + p_k1 * 9 + 7) * b_k0_1;
                const f64x1 b_k0_2 = load_clamped_f64x1(B_, k1 * 3 + 2, n_k);
                sum_i0_0 += load_f64x1(vals + p_k1 * 9 + 2) * b_k0_2;
                sum_i0_1 += load_f64x1(vals + p_k1 * 9 + 5) * b_k0_2;
                sum_i0_2 += load_f64x1(vals + p_k1 * 9 + 8) * b_k0_2;
            }
            check_1 += sum_i0_0 * 0;
            *(C_ + i1 * 3) = sum_f64x1(sum_i0_0);
            if (i1 * 3 + 1 < n_i) {
                check_1 += sum_i0_1 * 0;
                *(C_ + i1 * 3 + 1) = sum_f64x1(sum_i0_1);
            }
            if (i1 * 3 + 2 < n_i) {
                check_1 += sum_i0_2 * 0;
                *(C_ + i1 * 3 + 2) = sum_f64x1(sum_i0_2);
            }
        }
    }
    if (sum_f64x1(check_1) != 0) /* nan: a result was not finite */
        x->bad = 1;
}
static int asp_kernel_0(const asp_operand *A, uintptr_t B, int64_t ldB, uintptr_t C, int64_t ldC, int64_t n_j, int64_t n_threads, int64_t chunk)
{
    const asp_call arguments = {A, B, C, ldB, ldC, n_j, n_threads, chunk}, *call = &arguments;
    int bad = 0;
    const int64_t n_i = A->size[0];
    const int64_t n_k = A->size[1];
    const int64_t *restrict k1_pos = A->pos[1];
    double *restrict C_ = (double *)call->C;
    const int64_t n_i1 = (n_i + 2) / 3;
    if (n_i == 0 || n_k == 0) {
        for (int64_t at = 0; at < n_i; at++) C_[at] = 0;
        return 0;
    }
    {
        task_context_0 x = {.call = call, .n = n_i1, .weights = k1_pos};
        x.n_parts = chunk > 0 ? (x.n + chunk - 1) / chunk : n_threads > 1 ? 16 * n_threads : 1;
        if (!A->parallel || n_threads <= 1)
            task_0(&x, 0, x.n_parts);
        else {
            const double serial_ns = (double)A->n_positions[3] * (0.6 + 0.04 * (double)n_j);
            A->parallel(task_0, &x, x.n_parts, 1, 1 + x.n_parts / (4 * n_threads), (int)n_threads, serial_ns);
        }
        bad |= x.bad;
    }
    return bad;
}

const asp_shipped asp_shipped_avx512_f64_i64_blocks[] = {
    {"1f96fdf0ad7f1c324e215dbbc5fa5780", (void (*)(void))asp_kernel_0},
    {"143caed50088e0b2f2134cfadea30031", (void (*)(void))asp_kernel_0},
    {NULL, NULL},
};

#ifdef __clang__
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif
#endif
