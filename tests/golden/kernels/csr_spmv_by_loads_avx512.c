/* autosparse kernel
 * i1:U,k1:C | bits=16; loops i1 k1, parallel i1
 * float32, indices int32, avx512; unroll 16, prefetch 0
 *
 * C[i] += A[i,k] * B[k]    # A: i1:U,k1:C
 * parallel for i1 in 0..n_i:
 *   p_i1 = 0 * n_i + i1
 *   accumulate C[i] x 16 (zero):
 *     for p_k1 in k1_pos[p_i1]..: k1 = k1_crd[p_k1]  # unroll 16 as lanes
 *       block [-] lanes -: C[i] += A[i,k] * B[k]
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
#include <immintrin.h>
static inline __m128 four_16(const float *B, const uint16_t *at)
{
    uint64_t four;
    __builtin_memcpy(&four, at, 8);
    const uint64_t a = four & 0xffff, b = four >> 16 & 0xffff, c = four >> 32 & 0xffff, d = four >> 48;
    const __m128 low_two = _mm_insert_ps(_mm_load_ss(B + a), _mm_load_ss(B + b), 0x10);
    return _mm_insert_ps(_mm_insert_ps(low_two, _mm_load_ss(B + c), 0x20), _mm_load_ss(B + d), 0x30);
}
/* The first n entries of a fiber, n <= 16: products of the others are zero, and none of them is read. */
static inline f32x16 product_f32x16(const float *vals, const uint16_t *crd, const float *B, int64_t n)
{
    const __mmask16 m = (__mmask16)(n >= 16 ? 0xffffu : (1u << n) - 1u);
    __m512 b;
    if (n >= 16) {
        b = _mm512_insertf32x8(_mm512_castps256_ps512(_mm256_insertf128_ps(_mm256_castps128_ps256(four_16(B, crd)), four_16(B, crd + 4), 1)), _mm256_insertf128_ps(_mm256_castps128_ps256(four_16(B, crd + 8)), four_16(B, crd + 12), 1), 1);
    } else {
        uint16_t at[16];
        _mm256_storeu_si256((void *)at, _mm256_maskz_loadu_epi16(m, crd));
        b = _mm512_maskz_mov_ps(m, _mm512_insertf32x8(_mm512_castps256_ps512(_mm256_insertf128_ps(_mm256_castps128_ps256(four_16(B, at)), four_16(B, at + 4), 1)), _mm256_insertf128_ps(_mm256_castps128_ps256(four_16(B, at + 8)), four_16(B, at + 12), 1), 1));
    }
    return (f32x16)_mm512_mul_ps(_mm512_maskz_loadu_ps(m, vals), b);
}
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
    const int32_t *restrict k1_pos = A->pos[1];
    const uint16_t *restrict k1_crd = A->crd[1];
    const float *restrict vals = A->vals;
    const float *restrict B_ = (const float *)call->B;
    float *restrict C_ = (float *)call->C;
    for (int64_t i1 = begin; i1 < end; i1++) {
        const int64_t p_i1 = i1;
        {
            f32x1 rest = 0;
            f32x16 sum_0 = {0};
            int64_t p_k1 = k1_pos[p_i1];
            const int64_t end_k1 = k1_pos[p_i1 + 1];
            for (; p_k1 < end_k1; p_k1 += 16) {
                sum_0 += product_f32x16(vals + p_k1, k1_crd + p_k1, B_, end_k1 - p_k1);
            }
            *(C_ + i1) = rest + sum_f32x16(sum_0);
        }
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
        for (int64_t at = 0; at < n_i; at++) C_[at] = 0;
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
