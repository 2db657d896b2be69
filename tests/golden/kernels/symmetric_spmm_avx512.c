/* autosparse kernel
 * i1:U,k1:C | symmetric=1; loops i1 j1 k1 j0, parallel i1
 * float32, indices int32, avx512; unroll 1, prefetch 0
 *
 * C[i,j] += A[i,k] * B[k,j]    # A: i1:U,k1:C; outputs of their own for threads
 * C[i,j] = 0
 * parallel for i1 in 0..n_i:
 *   p_i1 = 0 * n_i + i1
 *   for j in tiles of 32 of 0..n_j:
 *     accumulate C[i,j] (load):
 *       for p_k1 in k1_pos[p_i1]..: k1 = k1_crd[p_k1]
 *         block [j0] lanes j0: C[i,j] += A[i,k] * B[k,j]
 *         C[k,j] += A[i,k] * B[i,j] unless k == i
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
    uintptr_t B, C;
    int64_t ldB, ldC, n_j, n_threads, chunk;
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

typedef struct {
    const asp_call *call;
    int64_t n, n_parts, step;
    void *own;
    const int32_t *weights;
    int bad;
} task_context;

static void task(void *context, int64_t part, int64_t end_part)
{
    task_context *x = context;
    const asp_call *call = x->call;
    const int64_t chunk = call->chunk, n_parts = x->n_parts;
    const asp_operand *A = call->A;
    const int64_t ldB = call->ldB;
    const int64_t n_j = call->n_j;
    const int32_t *restrict k1_pos = A->pos[1];
    const int32_t *restrict k1_crd = A->crd[1];
    const float *restrict vals = A->vals;
    const float *restrict B_ = (const float *)call->B;
    for (; part < end_part; part++) {
        float *restrict C_ = part ? (float *)x->own + (part - 1) * x->step : (float *)call->C;
        const int64_t ldC = part ? n_j : call->ldC;
        if (part)
            __builtin_memset(C_, 0, (size_t)x->step * sizeof(float));
        const int64_t n_rounds = chunk > 0 ? (x->n + chunk * n_parts - 1) / (chunk * n_parts) : 1;
        for (int64_t round = 0; round < n_rounds; round++) {
            const int64_t at = round * n_parts + part, n_shares = n_rounds * n_parts;
            const int64_t begin = asp_min(x->n, asp_boundary(x->weights, x->n, chunk, at, n_shares));
            const int64_t end = asp_min(x->n, asp_boundary(x->weights, x->n, chunk, at + 1, n_shares));
            for (int64_t i1 = begin; i1 < end; i1++) {
                const int64_t p_i1 = i1;
                const int64_t end_j = n_j;
                for (int64_t j = 0; j < end_j;) {
                    if (end_j - j >= 32) {
                        {
                            f32x16 sum_j0_0 = load_f32x16(C_ + i1 * ldC + j);
                            f32x16 sum_j0_16 = load_f32x16(C_ + i1 * ldC + j + 16);
                            int64_t p_k1 = k1_pos[p_i1];
                            const int64_t end_k1 = k1_pos[p_i1 + 1];
                            for (; p_k1 < end_k1; p_k1++) {
                                const int64_t k1 = k1_crd[p_k1];
                                const f32x16 b_j0_0 = load_f32x16(B_ + k1 * ldB + j);
                                sum_j0_0 += vals[p_k1] * b_j0_0;
                                const f32x16 b_j0_16 = load_f32x16(B_ + k1 * ldB + j + 16);
                                sum_j0_16 += vals[p_k1] * b_j0_16;
                                if (k1 != i1) {
                                    store_f32x16(C_ + k1 * ldC + j, load_f32x16(C_ + k1 * ldC + j) + vals[p_k1] * load_f32x16(B_ + i1 * ldB + j));
                                    store_f32x16(C_ + k1 * ldC + j + 16, load_f32x16(C_ + k1 * ldC + j + 16) + vals[p_k1] * load_f32x16(B_ + i1 * ldB + j + 16));
                                }
                            }
                            store_f32x16(C_ + i1 * ldC + j, sum_j0_0);
                            store_f32x16(C_ + i1 * ldC + j + 16, sum_j0_16);
                        }
                        j += 32;
                    }
                    else if (end_j - j > 16) {
                        {
                            const head_f32x16 head_16 = make_head_f32x16(end_j - j - 16);
                            f32x16 sum_j0_0 = load_f32x16(C_ + i1 * ldC + j);
                            f32x16 sum_j0_16 = load_head_f32x16(C_ + i1 * ldC + j + 16, head_16);
                            int64_t p_k1 = k1_pos[p_i1];
                            const int64_t end_k1 = k1_pos[p_i1 + 1];
                            for (; p_k1 < end_k1; p_k1++) {
                                const int64_t k1 = k1_crd[p_k1];
                                const f32x16 b_j0_0 = load_f32x16(B_ + k1 * ldB + j);
                                sum_j0_0 += vals[p_k1] * b_j0_0;
                                const f32x16 b_j0_16 = load_head_f32x16(B_ + k1 * ldB + j + 16, head_16);
                                sum_j0_16 += vals[p_k1] * b_j0_16;
                                if (k1 != i1) {
                                    store_f32x16(C_ + k1 * ldC + j, load_f32x16(C_ + k1 * ldC + j) + vals[p_k1] * load_f32x16(B_ + i1 * ldB + j));
                                    store_head_f32x16(C_ + k1 * ldC + j + 16, load_head_f32x16(C_ + k1 * ldC + j + 16, head_16) + vals[p_k1] * load_head_f32x16(B_ + i1 * ldB + j + 16, head_16), head_16);
                                }
                            }
                            store_f32x16(C_ + i1 * ldC + j, sum_j0_0);
                            store_head_f32x16(C_ + i1 * ldC + j + 16, sum_j0_16, head_16);
                        }
                        j = end_j;
                    }
                    else {
                        {
                            const head_f32x16 head_0 = make_head_f32x16(end_j - j);
                            f32x16 sum_j0_0 = load_head_f32x16(C_ + i1 * ldC + j, head_0);
                            int64_t p_k1 = k1_pos[p_i1];
                            const int64_t end_k1 = k1_pos[p_i1 + 1];
                            for (; p_k1 < end_k1; p_k1++) {
                                const int64_t k1 = k1_crd[p_k1];
                                const f32x16 b_j0_0 = load_head_f32x16(B_ + k1 * ldB + j, head_0);
                                sum_j0_0 += vals[p_k1] * b_j0_0;
                                if (k1 != i1) {
                                    store_head_f32x16(C_ + k1 * ldC + j, load_head_f32x16(C_ + k1 * ldC + j, head_0) + vals[p_k1] * load_head_f32x16(B_ + i1 * ldB + j, head_0), head_0);
                                }
                            }
                            store_head_f32x16(C_ + i1 * ldC + j, sum_j0_0, head_0);
                        }
                        j = end_j;
                    }
                }
            }
        }
    }
}

static void task_merge(void *context, int64_t begin, int64_t end)
{
    task_context *x = context;
    const asp_call *call = x->call;
    const int64_t n_columns = call->n_j;
    for (int64_t row = begin; row < end; row++)
        for (int64_t part = 1; part < x->n_parts; part++) {
            float *restrict to = (float *)call->C + row * call->ldC;
            const float *restrict from = (float *)x->own + (part - 1) * x->step + row * n_columns;
            for (int64_t column = 0; column < n_columns; column++)
                to[column] += from[column];
        }
}

int asp_kernel(const asp_operand *A, uintptr_t B, int64_t ldB, uintptr_t C, int64_t ldC, int64_t n_j, int64_t n_threads, int64_t chunk)
{
    const asp_call arguments = {A, B, C, ldB, ldC, n_j, n_threads, chunk}, *call = &arguments;
    int bad = 0;
    const int64_t n_i = A->size[0];
    const int64_t n_k = A->size[1];
    const int32_t *restrict k1_pos = A->pos[1];
    float *restrict C_ = (float *)call->C;
    const int64_t n_i1 = n_i;
    if (n_i == 0 || n_k == 0) {
        for (int64_t at = 0; at < n_i; at++) for (int64_t to = 0; to < n_j; to++) C_[at * ldC + to] = 0;
        return 0;
    }
    for (int64_t at = 0; at < n_i; at++) for (int64_t to = 0; to < n_j; to++) C_[at * ldC + to] = 0;
    {
        task_context x = {.call = call, .n = n_i1, .weights = k1_pos};
        x.step = (n_i * n_j + 31) / 32 * 32;
        const int64_t most = 1 + 268435456 / (x.step * (int64_t)sizeof(float) + 1);
        const int64_t wanted = asp_min(asp_min(n_threads, most), x.n);
        const size_t own_bytes = wanted > 1 ? (size_t)((wanted - 1) * x.step) * sizeof(float) : 0;
        x.own = own_bytes ? A->take(own_bytes) : NULL;
        x.n_parts = x.own ? wanted : 1;
        const double entries = (double)A->n_positions[1];
        const double serial_ns = entries * (0.6 + 0.04 * (double)n_j);
        if (!A->parallel || n_threads <= 1) {
            task(&x, 0, x.n_parts);
            task_merge(&x, 0, n_i);
        }
        else {
            A->parallel(task, &x, x.n_parts, 1, 1, (int)n_threads, serial_ns);
            const double merge_ns = 0.2 * (double)(x.step * x.n_parts);
            A->parallel(task_merge, &x, x.n_parts > 1 ? n_i : 0, 64, n_i, (int)n_threads, merge_ns);
        }
        if (x.own)
            A->give(x.own, own_bytes);
        bad |= x.bad;
    }
    return bad;
}
