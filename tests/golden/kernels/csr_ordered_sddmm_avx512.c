/* autosparse kernel
 * i1:U,k1:C | rows=rcm; loops i1 k1 j1 j0, parallel i1
 * float32, indices int32, avx512; unroll 4, prefetch 0
 *
 * O[i,k] += A[i,k] * X[i,j] * Y[k,j]    # A: i1:U,k1:C
 * parallel for i1 in 0..n_i:
 *   p_i1 = 0 * n_i + i1
 *   for p_k1 in k1_pos[p_i1]..: k1 = k1_crd[p_k1]  # unroll 4 jammed
 *     accumulate O[i,k] (zero, times A[i,k]):
 *       for j in tiles of 32 of 0..n_j:
 *         block [j0] lanes j0: O[i,k] += X[i,j] * Y[k,j]
 */
#include <stddef.h>
#include <stdint.h>
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
    uintptr_t X, Y, O, vals;
    int64_t ldX, ldY, ldO, n_j, n_threads, chunk;
} asp_call;
typedef float f32x1;
static inline f32x1 load_f32x1(const float *p) { return *p; }
static inline void store_f32x1(float *p, f32x1 v) { *p = v; }
static inline float sum_f32x1(f32x1 v) { return v; }
typedef float f32x2 __attribute__((vector_size(8)));
typedef float f32x2_unaligned __attribute__((vector_size(8), aligned(4), may_alias));
static inline f32x2 load_f32x2(const float *p) { return *(const f32x2_unaligned *)p; }
static inline void store_f32x2(float *p, f32x2 v) { *(f32x2_unaligned *)p = v; }
static inline float sum_f32x2(f32x2 v)
{
    union { f32x2 whole; f32x1 half[2]; } u = {v};
    return sum_f32x1(u.half[0] + u.half[1]);
}
typedef float f32x4 __attribute__((vector_size(16)));
typedef float f32x4_unaligned __attribute__((vector_size(16), aligned(4), may_alias));
static inline f32x4 load_f32x4(const float *p) { return *(const f32x4_unaligned *)p; }
static inline void store_f32x4(float *p, f32x4 v) { *(f32x4_unaligned *)p = v; }
static inline float sum_f32x4(f32x4 v)
{
    union { f32x4 whole; f32x2 half[2]; } u = {v};
    return sum_f32x2(u.half[0] + u.half[1]);
}
typedef float f32x8 __attribute__((vector_size(32)));
typedef float f32x8_unaligned __attribute__((vector_size(32), aligned(4), may_alias));
static inline f32x8 load_f32x8(const float *p) { return *(const f32x8_unaligned *)p; }
static inline void store_f32x8(float *p, f32x8 v) { *(f32x8_unaligned *)p = v; }
static inline float sum_f32x8(f32x8 v)
{
    union { f32x8 whole; f32x4 half[2]; } u = {v};
    return sum_f32x4(u.half[0] + u.half[1]);
}
typedef float f32x16 __attribute__((vector_size(64)));
typedef float f32x16_unaligned __attribute__((vector_size(64), aligned(4), may_alias));
static inline f32x16 load_f32x16(const float *p) { return *(const f32x16_unaligned *)p; }
static inline void store_f32x16(float *p, f32x16 v) { *(f32x16_unaligned *)p = v; }
static inline float sum_f32x16(f32x16 v)
{
    union { f32x16 whole; f32x8 half[2]; } u = {v};
    return sum_f32x8(u.half[0] + u.half[1]);
}
#ifdef __clang__
#include <immintrin.h>
#define mask_load(p, m) (f32x16)_mm512_maskz_loadu_ps(m, p)
#define mask_store(p, m, v) _mm512_mask_storeu_ps(p, m, v)
#else
#define mask_load(p, m) __builtin_ia32_loadups512_mask(p, (f32x16){0}, m)
#define mask_store(p, m, v) __builtin_ia32_storeups512_mask(p, v, m)
#endif
typedef uint16_t head_f32x16;
static inline head_f32x16 make_head_f32x16(int64_t n)
{
    return (head_f32x16)(n >= 16 ? 0xffffu : n > 0 ? (1u << n) - 1u : 0u);
}
static inline f32x16 load_head_f32x16(const float *p, head_f32x16 m) { return mask_load(p, m); }
static inline void store_head_f32x16(float *p, f32x16 v, head_f32x16 m) { mask_store(p, m, v); }
#ifndef shuffle_f32x16
#if defined(__clang__) || __GNUC__ >= 12
#define shuffle_f32x16(a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
#else
typedef int32_t lanes_f32x16 __attribute__((vector_size(64)));
#define shuffle_f32x16(a, b, ...) __builtin_shuffle(a, b, (lanes_f32x16){__VA_ARGS__})
#endif
#endif
static inline f32x2 fold_2_f32x16(f32x16 v0, f32x16 v1)
{
    const f32x16 s8_0 = shuffle_f32x16(v0, v1, 0, 1, 2, 3, 4, 5, 6, 7, 24, 25, 26, 27, 28, 29, 30, 31) + shuffle_f32x16(v0, v1, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23);
    const f32x16 s4 = s8_0 + shuffle_f32x16(s8_0, s8_0, 4, 5, 6, 7, 0, 1, 2, 3, 12, 13, 14, 15, 8, 9, 10, 11);
    const f32x16 s2 = s4 + shuffle_f32x16(s4, s4, 2, 3, 0, 1, 6, 7, 4, 5, 10, 11, 8, 9, 14, 15, 12, 13);
    const f32x16 s1 = s2 + shuffle_f32x16(s2, s2, 1, 0, 3, 2, 5, 4, 7, 6, 9, 8, 11, 10, 13, 12, 15, 14);
    return (f32x2){s1[0], s1[8]};
}
#ifndef shuffle_f32x16
#if defined(__clang__) || __GNUC__ >= 12
#define shuffle_f32x16(a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
#else
typedef int32_t lanes_f32x16 __attribute__((vector_size(64)));
#define shuffle_f32x16(a, b, ...) __builtin_shuffle(a, b, (lanes_f32x16){__VA_ARGS__})
#endif
#endif
static inline f32x4 fold_4_f32x16(f32x16 v0, f32x16 v1, f32x16 v2, f32x16 v3)
{
    const f32x16 s8_0 = shuffle_f32x16(v0, v2, 0, 1, 2, 3, 4, 5, 6, 7, 24, 25, 26, 27, 28, 29, 30, 31) + shuffle_f32x16(v0, v2, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23);
    const f32x16 s8_1 = shuffle_f32x16(v1, v3, 0, 1, 2, 3, 4, 5, 6, 7, 24, 25, 26, 27, 28, 29, 30, 31) + shuffle_f32x16(v1, v3, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23);
    const f32x16 s4_0 = shuffle_f32x16(s8_0, s8_1, 0, 1, 2, 3, 20, 21, 22, 23, 8, 9, 10, 11, 28, 29, 30, 31) + shuffle_f32x16(s8_0, s8_1, 4, 5, 6, 7, 16, 17, 18, 19, 12, 13, 14, 15, 24, 25, 26, 27);
    const f32x16 s2 = s4_0 + shuffle_f32x16(s4_0, s4_0, 2, 3, 0, 1, 6, 7, 4, 5, 10, 11, 8, 9, 14, 15, 12, 13);
    const f32x16 s1 = s2 + shuffle_f32x16(s2, s2, 1, 0, 3, 2, 5, 4, 7, 6, 9, 8, 11, 10, 13, 12, 15, 14);
    return (f32x4){s1[0], s1[4], s1[8], s1[12]};
}
static inline int64_t asp_min(int64_t a, int64_t b) { return a < b ? a : b; }
/* First of n iterations at which the share `part` of n_parts begins: chunk iterations each, or equal
 * numbers of entries and iterations. */
static int64_t asp_boundary(const int32_t *pos, int64_t n, int64_t chunk, int64_t part, int64_t n_parts)
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
/* Results of one row of A, 4 at a time. */
static inline void sampled_row(
    const float *x, const float *restrict Y, int64_t ldY, const int32_t *crd,
    const float *vals, float *restrict O, int64_t p, int64_t end, int64_t last, int64_t lead)
{
    (void)last;
    (void)lead;
    const f32x16 x_0 = load_f32x16(x + 0);
    const f32x16 x_1 = load_f32x16(x + 16);
    for (; p + 4 <= end; p += 4) {
        const float *y_0 = Y + (int64_t)crd[p + 0] * ldY;
        const float *y_1 = Y + (int64_t)crd[p + 1] * ldY;
        const float *y_2 = Y + (int64_t)crd[p + 2] * ldY;
        const float *y_3 = Y + (int64_t)crd[p + 3] * ldY;
        f32x16 s_0 = x_0 * load_f32x16(y_0 + 0);
        f32x16 s_1 = x_0 * load_f32x16(y_1 + 0);
        f32x16 s_2 = x_0 * load_f32x16(y_2 + 0);
        f32x16 s_3 = x_0 * load_f32x16(y_3 + 0);
        s_0 += x_1 * load_f32x16(y_0 + 16);
        s_1 += x_1 * load_f32x16(y_1 + 16);
        s_2 += x_1 * load_f32x16(y_2 + 16);
        s_3 += x_1 * load_f32x16(y_3 + 16);
        store_f32x4(O + p, load_f32x4(vals + p) * fold_4_f32x16(s_0, s_1, s_2, s_3));
    }
    if (p + 3 <= end) {
        const float *y_0 = Y + (int64_t)crd[p + 0] * ldY;
        const float *y_1 = Y + (int64_t)crd[p + 1] * ldY;
        const float *y_2 = Y + (int64_t)crd[p + 2] * ldY;
        f32x16 s_0 = x_0 * load_f32x16(y_0 + 0);
        f32x16 s_1 = x_0 * load_f32x16(y_1 + 0);
        f32x16 s_2 = x_0 * load_f32x16(y_2 + 0);
        s_0 += x_1 * load_f32x16(y_0 + 16);
        s_1 += x_1 * load_f32x16(y_1 + 16);
        s_2 += x_1 * load_f32x16(y_2 + 16);
        const f32x4 dots = fold_4_f32x16(s_0, s_1, s_2, (f32x16){0});
        O[p + 0] = vals[p + 0] * dots[0];
        O[p + 1] = vals[p + 1] * dots[1];
        O[p + 2] = vals[p + 2] * dots[2];
    }
    else if (p + 2 <= end) {
        const float *y_0 = Y + (int64_t)crd[p + 0] * ldY;
        const float *y_1 = Y + (int64_t)crd[p + 1] * ldY;
        f32x16 s_0 = x_0 * load_f32x16(y_0 + 0);
        f32x16 s_1 = x_0 * load_f32x16(y_1 + 0);
        s_0 += x_1 * load_f32x16(y_0 + 16);
        s_1 += x_1 * load_f32x16(y_1 + 16);
        store_f32x2(O + p, load_f32x2(vals + p) * fold_2_f32x16(s_0, s_1));
    }
    else if (p + 1 <= end) {
        const float *y_0 = Y + (int64_t)crd[p + 0] * ldY;
        f32x16 s_0 = x_0 * load_f32x16(y_0 + 0);
        s_0 += x_1 * load_f32x16(y_0 + 16);
        O[p] = vals[p] * sum_f32x16(s_0);
    }
}

typedef struct {
    const asp_call *call;
    int64_t n, n_parts;
    const int32_t *weights;
    int bad;
} task_context;

static void task(void *context, int64_t part, int64_t end_part)
{
    task_context *x = context;
    const asp_call *call = x->call;
    const int64_t begin = asp_boundary(x->weights, x->n, call->chunk, part, x->n_parts);
    const int64_t end = asp_boundary(x->weights, x->n, call->chunk, end_part, x->n_parts);
    const asp_operand *A = call->A;
    const int64_t n_i = A->size[0];
    const int64_t ldX = call->ldX;
    const int64_t ldY = call->ldY;
    const int64_t n_j = call->n_j;
    const int32_t *restrict k1_pos = A->pos[1];
    const int32_t *restrict k1_crd = A->crd[1];
    const int64_t last_k1 = A->n_positions[1] - 1;
    const int32_t *restrict slice_rows = A->crd[5];
    const float *restrict vals = (const float *)call->vals;
    const int32_t *restrict origin = A->origin;
    const float *restrict X_ = (const float *)call->X;
    const float *restrict Y_ = (const float *)call->Y;
    float *restrict O_ = (float *)call->O;
    const int64_t n_i1 = n_i;
    for (int64_t i1 = begin; i1 < end; i1++) {
        const int64_t p_i1 = i1;
        int64_t p_k1 = k1_pos[p_i1];
        const int64_t end_k1 = k1_pos[p_i1 + 1];
        if (n_j == 32) {
            const int64_t shift = origin && p_k1 < end_k1 ? origin[p_k1] - p_k1 : 0;
            if (i1 + 2 < n_i1) {
                const int64_t row_ahead = slice_rows[i1 + 2];
                const int64_t p_ahead = asp_min(k1_pos[i1 + 2], last_k1);
                const int64_t ahead = origin ? origin[p_ahead] : p_ahead;
                for (int64_t column = 0; column < 32; column += 16)
                    __builtin_prefetch(X_ + row_ahead * ldX + column);
                __builtin_prefetch(vals + ahead);
                __builtin_prefetch(O_ + ahead, 1);
            }
            sampled_row(X_ + slice_rows[i1] * ldX, Y_, ldY, k1_crd, vals + shift, O_ + shift, p_k1, end_k1, last_k1, 0);
            continue;
        }
        for (; p_k1 + 4 <= end_k1; p_k1 += 4) {
            const int64_t p_k1_0 = p_k1, k1_0 = k1_crd[p_k1_0];
            const int64_t p_k1_1 = p_k1 + 1, k1_1 = k1_crd[p_k1_1];
            const int64_t p_k1_2 = p_k1 + 2, k1_2 = k1_crd[p_k1_2];
            const int64_t p_k1_3 = p_k1 + 3, k1_3 = k1_crd[p_k1_3];
            {
                f32x16 sum = (f32x16){0};
                f32x16 sum1 = (f32x16){0};
                f32x16 sum2 = (f32x16){0};
                f32x16 sum3 = (f32x16){0};
                const int64_t end_j = n_j;
                for (int64_t j = 0; j < end_j;) {
                    if (end_j - j >= 32) {
                        const f32x16 x_j0_0 = load_f32x16(X_ + (slice_rows[i1]) * ldX + j);
                        const f32x16 y_j0_0_e0 = load_f32x16(Y_ + k1_0 * ldY + j);
                        sum += x_j0_0 * y_j0_0_e0;
                        const f32x16 y_j0_0_e1 = load_f32x16(Y_ + k1_1 * ldY + j);
                        sum1 += x_j0_0 * y_j0_0_e1;
                        const f32x16 y_j0_0_e2 = load_f32x16(Y_ + k1_2 * ldY + j);
                        sum2 += x_j0_0 * y_j0_0_e2;
                        const f32x16 y_j0_0_e3 = load_f32x16(Y_ + k1_3 * ldY + j);
                        sum3 += x_j0_0 * y_j0_0_e3;
                        const f32x16 x_j0_16 = load_f32x16(X_ + (slice_rows[i1]) * ldX + j + 16);
                        const f32x16 y_j0_16_e0 = load_f32x16(Y_ + k1_0 * ldY + j + 16);
                        sum += x_j0_16 * y_j0_16_e0;
                        const f32x16 y_j0_16_e1 = load_f32x16(Y_ + k1_1 * ldY + j + 16);
                        sum1 += x_j0_16 * y_j0_16_e1;
                        const f32x16 y_j0_16_e2 = load_f32x16(Y_ + k1_2 * ldY + j + 16);
                        sum2 += x_j0_16 * y_j0_16_e2;
                        const f32x16 y_j0_16_e3 = load_f32x16(Y_ + k1_3 * ldY + j + 16);
                        sum3 += x_j0_16 * y_j0_16_e3;
                        j += 32;
                    }
                    else if (end_j - j >= 16) {
                        const f32x16 x_j0_0 = load_f32x16(X_ + (slice_rows[i1]) * ldX + j);
                        const f32x16 y_j0_0_e0 = load_f32x16(Y_ + k1_0 * ldY + j);
                        sum += x_j0_0 * y_j0_0_e0;
                        const f32x16 y_j0_0_e1 = load_f32x16(Y_ + k1_1 * ldY + j);
                        sum1 += x_j0_0 * y_j0_0_e1;
                        const f32x16 y_j0_0_e2 = load_f32x16(Y_ + k1_2 * ldY + j);
                        sum2 += x_j0_0 * y_j0_0_e2;
                        const f32x16 y_j0_0_e3 = load_f32x16(Y_ + k1_3 * ldY + j);
                        sum3 += x_j0_0 * y_j0_0_e3;
                        j += 16;
                    }
                    else {
                        const head_f32x16 head_0 = make_head_f32x16(end_j - j);
                        const f32x16 x_j0_0 = load_head_f32x16(X_ + (slice_rows[i1]) * ldX + j, head_0);
                        const f32x16 y_j0_0_e0 = load_head_f32x16(Y_ + k1_0 * ldY + j, head_0);
                        sum += x_j0_0 * y_j0_0_e0;
                        const f32x16 y_j0_0_e1 = load_head_f32x16(Y_ + k1_1 * ldY + j, head_0);
                        sum1 += x_j0_0 * y_j0_0_e1;
                        const f32x16 y_j0_0_e2 = load_head_f32x16(Y_ + k1_2 * ldY + j, head_0);
                        sum2 += x_j0_0 * y_j0_0_e2;
                        const f32x16 y_j0_0_e3 = load_head_f32x16(Y_ + k1_3 * ldY + j, head_0);
                        sum3 += x_j0_0 * y_j0_0_e3;
                        j = end_j;
                    }
                }
                {
                    const f32x4 dots = fold_4_f32x16(sum, sum1, sum2, sum3);
                    const int64_t e = origin ? origin[p_k1_0] : p_k1_0;
                    store_f32x4(O_ + e, load_f32x4(vals + e) * dots);
                }
            }
        }
        if (p_k1 + 2 <= end_k1) {
            const int64_t p_k1_0 = p_k1, k1_0 = k1_crd[p_k1_0];
            const int64_t p_k1_1 = p_k1 + 1, k1_1 = k1_crd[p_k1_1];
            {
                f32x16 sum = (f32x16){0};
                f32x16 sum1 = (f32x16){0};
                const int64_t end_j = n_j;
                for (int64_t j = 0; j < end_j;) {
                    if (end_j - j >= 32) {
                        const f32x16 x_j0_0 = load_f32x16(X_ + (slice_rows[i1]) * ldX + j);
                        const f32x16 y_j0_0_e0 = load_f32x16(Y_ + k1_0 * ldY + j);
                        sum += x_j0_0 * y_j0_0_e0;
                        const f32x16 y_j0_0_e1 = load_f32x16(Y_ + k1_1 * ldY + j);
                        sum1 += x_j0_0 * y_j0_0_e1;
                        const f32x16 x_j0_16 = load_f32x16(X_ + (slice_rows[i1]) * ldX + j + 16);
                        const f32x16 y_j0_16_e0 = load_f32x16(Y_ + k1_0 * ldY + j + 16);
                        sum += x_j0_16 * y_j0_16_e0;
                        const f32x16 y_j0_16_e1 = load_f32x16(Y_ + k1_1 * ldY + j + 16);
                        sum1 += x_j0_16 * y_j0_16_e1;
                        j += 32;
                    }
                    else if (end_j - j >= 16) {
                        const f32x16 x_j0_0 = load_f32x16(X_ + (slice_rows[i1]) * ldX + j);
                        const f32x16 y_j0_0_e0 = load_f32x16(Y_ + k1_0 * ldY + j);
                        sum += x_j0_0 * y_j0_0_e0;
                        const f32x16 y_j0_0_e1 = load_f32x16(Y_ + k1_1 * ldY + j);
                        sum1 += x_j0_0 * y_j0_0_e1;
                        j += 16;
                    }
                    else {
                        const head_f32x16 head_0 = make_head_f32x16(end_j - j);
                        const f32x16 x_j0_0 = load_head_f32x16(X_ + (slice_rows[i1]) * ldX + j, head_0);
                        const f32x16 y_j0_0_e0 = load_head_f32x16(Y_ + k1_0 * ldY + j, head_0);
                        sum += x_j0_0 * y_j0_0_e0;
                        const f32x16 y_j0_0_e1 = load_head_f32x16(Y_ + k1_1 * ldY + j, head_0);
                        sum1 += x_j0_0 * y_j0_0_e1;
                        j = end_j;
                    }
                }
                {
                    const f32x2 dots = fold_2_f32x16(sum, sum1);
                    const int64_t e = origin ? origin[p_k1_0] : p_k1_0;
                    store_f32x2(O_ + e, load_f32x2(vals + e) * dots);
                }
            }
            p_k1 += 2;
        }
        if (p_k1 + 1 <= end_k1) {
            const int64_t p_k1_0 = p_k1, k1_0 = k1_crd[p_k1_0];
            {
                f32x16 sum = (f32x16){0};
                const int64_t end_j = n_j;
                for (int64_t j = 0; j < end_j;) {
                    if (end_j - j >= 32) {
                        const f32x16 x_j0_0 = load_f32x16(X_ + (slice_rows[i1]) * ldX + j);
                        const f32x16 y_j0_0_e0 = load_f32x16(Y_ + k1_0 * ldY + j);
                        sum += x_j0_0 * y_j0_0_e0;
                        const f32x16 x_j0_16 = load_f32x16(X_ + (slice_rows[i1]) * ldX + j + 16);
                        const f32x16 y_j0_16_e0 = load_f32x16(Y_ + k1_0 * ldY + j + 16);
                        sum += x_j0_16 * y_j0_16_e0;
                        j += 32;
                    }
                    else if (end_j - j >= 16) {
                        const f32x16 x_j0_0 = load_f32x16(X_ + (slice_rows[i1]) * ldX + j);
                        const f32x16 y_j0_0_e0 = load_f32x16(Y_ + k1_0 * ldY + j);
                        sum += x_j0_0 * y_j0_0_e0;
                        j += 16;
                    }
                    else {
                        const head_f32x16 head_0 = make_head_f32x16(end_j - j);
                        const f32x16 x_j0_0 = load_head_f32x16(X_ + (slice_rows[i1]) * ldX + j, head_0);
                        const f32x16 y_j0_0_e0 = load_head_f32x16(Y_ + k1_0 * ldY + j, head_0);
                        sum += x_j0_0 * y_j0_0_e0;
                        j = end_j;
                    }
                }
                {
                    const f32x1 dots = sum_f32x16(sum);
                    {
                        const int64_t e = origin ? origin[p_k1_0] : p_k1_0;
                        O_[e] = vals[e] * dots;
                    }
                }
            }
            p_k1 += 1;
        }
    }
}

int asp_kernel(const asp_operand *A, const uintptr_t *at, const int64_t *ld, int64_t n_j, int64_t n_threads, int64_t chunk)
{
    const asp_call arguments = {A, at[0], at[1], at[2], at[3], ld[0], ld[1], ld[2], n_j, n_threads, chunk}, *call = &arguments;
    int bad = 0;
    const int64_t n_i = A->size[0];
    const int64_t n_k = A->size[1];
    const int32_t *restrict k1_pos = A->pos[1];
    const int64_t last_k1 = A->n_positions[1] - 1;
    const float *restrict vals = (const float *)call->vals;
    const int32_t *restrict origin = A->origin;
    float *restrict O_ = (float *)call->O;
    const int64_t n_i1 = n_i;
    if (n_i == 0 || n_k == 0) {
        return 0;
    }
    if (n_j == 0) {
        for (int64_t p = 0; p <= last_k1; p++) {
            {
                const int64_t e = origin ? origin[p] : p;
                O_[e] = vals[e] * (float)0;
            }
        }
        return 0;
    }
    {
        task_context x = {.call = call, .n = n_i1, .weights = k1_pos};
        x.n_parts = chunk > 0 ? (x.n + chunk - 1) / chunk : n_threads > 1 ? 16 * n_threads : 1;
        if (!A->parallel || n_threads <= 1)
            task(&x, 0, x.n_parts);
        else {
            const double serial_ns = (double)A->n_positions[1] * (0.6 + 0.04 * (double)n_j);
            A->parallel(task, &x, x.n_parts, 1, 1 + x.n_parts / (4 * n_threads), (int)n_threads, serial_ns);
        }
        bad |= x.bad;
    }
    return bad;
}
