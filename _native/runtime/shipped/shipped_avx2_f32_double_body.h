/* Generated kernels, written by tools/shipped_kernels.py: do not edit. */
/* autosparse kernel
 * i1:U,k1:D,i0:U | i=16 | sigma=512 | bits=16; loops i1 k1 i0, parallel i1
 * float32, avx2; unroll 1, prefetch 32
 *
 * C[i] += A[i,k] * B[k]    # A: i1:U,k1:D,i0:U
 * parallel for i1 in 0..ceil(n_i / 16):
 *   for p_k1 in k1_pos[i1]..: lanes i0 in 0..16: C[i] += A[i,k] * B[k], i = rows[i1,i0], k = k1_crd[p_k1,i0] or k1_crd[p_k1] + i0  # 1 copies, check finite, 16 bits from a base, prefetch 32 ahead
 */
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
static inline f32x8 gather_16_f32x8_0(const float *B, const uint16_t *at)
{
    const __m256i wide = _mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)at));
    return (f32x8)_mm256_i32gather_ps(B, wide, 4);
}
static inline f32x8 gather_32_f32x8_0(const float *B, const int32_t *at)
{
    return (f32x8)_mm256_i32gather_ps(B, _mm256_loadu_si256((const __m256i *)at), 4);
}
static inline void scatter_f32x8_0(float *C, const int32_t *row, f32x8 v, int64_t n)
{
    for (int lane = 0; lane < 8; lane++)
        if (row[lane] < n)
            C[row[lane]] = v[lane];
}
static void task_0(void *context, int64_t part, int64_t end_part)
{
    task_context_0 *x = context;
    const asp_call *call = x->call;
    const int64_t begin = asp_boundary(x->weights, x->n, call->chunk, part, x->n_parts);
    const int64_t end = asp_boundary(x->weights, x->n, call->chunk, end_part, x->n_parts);
    f32x8 check_8 = {0};
    const asp_operand *A = call->A;
    const int64_t n_i = A->size[0];
    const POSITION *restrict k1_pos = A->pos[1];
    const uint16_t *restrict k1_crd = A->crd[1];
    const int64_t *restrict slice_begin = A->pos[3];
    const int64_t *restrict slice_what = A->crd[3];
    const int32_t *restrict slice_first = A->crd[4];
    const int32_t *restrict slice_rows = A->crd[5];
    const float *restrict vals = A->vals;
    const float *restrict B_ = (const float *)call->B;
    float *restrict C_ = (float *)call->C;
    for (int64_t i1 = begin; i1 < end; i1++) {
        const int64_t n_slots = k1_pos[i1 + 1] - k1_pos[i1];
        const float *v = vals + k1_pos[i1] * 16;
        const int64_t what = slice_what[i1];
        f32x8 sum0_0 = {0};
        f32x8 sum0_8 = {0};
        if ((what & 3) == 2) {
            const float *x = B_;
            const int32_t *at = (const int32_t *)(k1_crd + slice_begin[i1]);
            int64_t s = 0;
            for (; s + 1 <= n_slots; s += 1) {
                __builtin_prefetch(v + (s + 32) * 16 + 0);
                sum0_0 += load_f32x8(v + s * 16) * load_f32x8(x + at[s]);
                sum0_8 += load_f32x8(v + s * 16 + 8) * load_f32x8(x + at[s] + 8);
            }
        }
        else if ((what & 3) == 0) {
            const float *x = B_;
            const int32_t *at = (const int32_t *)(k1_crd + slice_begin[i1]);
            int64_t s = 0;
            for (; s + 1 <= n_slots; s += 1) {
                __builtin_prefetch(v + (s + 32) * 16 + 0);
                __builtin_prefetch(at + (s + 32) * 16 + 0);
                sum0_0 += load_f32x8(v + s * 16) * gather_32_f32x8_0(x, at + s * 16);
                sum0_8 += load_f32x8(v + s * 16 + 8) * gather_32_f32x8_0(x, at + s * 16 + 8);
            }
        }
        else {
            const float *x = B_ + (what >> 3);
            const uint16_t *at = (const uint16_t *)(k1_crd + slice_begin[i1]);
            int64_t s = 0;
            for (; s + 1 <= n_slots; s += 1) {
                __builtin_prefetch(v + (s + 32) * 16 + 0);
                __builtin_prefetch(at + (s + 32) * 16 + 0);
                sum0_0 += load_f32x8(v + s * 16) * gather_16_f32x8_0(x, at + s * 16);
                sum0_8 += load_f32x8(v + s * 16 + 8) * gather_16_f32x8_0(x, at + s * 16 + 8);
            }
        }
        check_8 += sum0_0 * 0;
        check_8 += sum0_8 * 0;
        if (what & 4) {
            store_f32x8(C_ + slice_first[i1] + 0, sum0_0);
            store_f32x8(C_ + slice_first[i1] + 8, sum0_8);
        }
        else {
            const int32_t *row = slice_rows + slice_first[i1] * (int64_t)16;
            scatter_f32x8_0(C_, row + 0, sum0_0, n_i);
            scatter_f32x8_0(C_, row + 8, sum0_8, n_i);
        }
    }
    if (sum_f32x8(check_8) != 0) /* nan: a result was not finite */
        x->bad = 1;
}
static int asp_kernel_0(const asp_operand *A, uintptr_t B, int64_t ldB, uintptr_t C, int64_t ldC, int64_t n_j, int64_t n_threads, int64_t chunk)
{
    const asp_call arguments = {A, B, C, ldB, ldC, n_j, n_threads, chunk}, *call = &arguments;
    int bad = 0;
    const int64_t n_i = A->size[0];
    const int64_t n_k = A->size[1];
    const POSITION *restrict k1_pos = A->pos[1];
    float *restrict C_ = (float *)call->C;
    const int64_t n_i1 = (n_i + 15) / 16;
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
            const double serial_ns = (double)A->n_positions[2] * (0.2 + 0.04 * (double)n_j);
            A->parallel(task_0, &x, x.n_parts, 1, 1 + x.n_parts / (4 * n_threads), (int)n_threads, serial_ns);
        }
        bad |= x.bad;
    }
    return bad;
}
static inline __m128 four_16_1(const float *B, const uint16_t *at)
{
    uint64_t four;
    __builtin_memcpy(&four, at, 8);
    const uint64_t a = four & 0xffff, b = four >> 16 & 0xffff, c = four >> 32 & 0xffff, d = four >> 48;
    const __m128 low_two = _mm_insert_ps(_mm_load_ss(B + a), _mm_load_ss(B + b), 0x10);
    return _mm_insert_ps(_mm_insert_ps(low_two, _mm_load_ss(B + c), 0x20), _mm_load_ss(B + d), 0x30);
}
static inline __m128 four_32_1(const float *B, const int32_t *at)
{
    uint64_t low, high;
    __builtin_memcpy(&low, at, 8);
    __builtin_memcpy(&high, at + 2, 8);
    const uint64_t a = low & 0xffffffff, b = low >> 32, c = high & 0xffffffff, d = high >> 32;
    const __m128 low_two = _mm_insert_ps(_mm_load_ss(B + a), _mm_load_ss(B + b), 0x10);
    return _mm_insert_ps(_mm_insert_ps(low_two, _mm_load_ss(B + c), 0x20), _mm_load_ss(B + d), 0x30);
}
static inline f32x8 gather_16_f32x8_1(const float *B, const uint16_t *at)
{
    return (f32x8)_mm256_insertf128_ps(_mm256_castps128_ps256(four_16_1(B, at)), four_16_1(B, at + 4), 1);
}
static inline f32x8 gather_32_f32x8_1(const float *B, const int32_t *at)
{
    return (f32x8)_mm256_insertf128_ps(_mm256_castps128_ps256(four_32_1(B, at)), four_32_1(B, at + 4), 1);
}
static inline void scatter_f32x8_1(float *C, const int32_t *row, f32x8 v, int64_t n)
{
    for (int lane = 0; lane < 8; lane++)
        if (row[lane] < n)
            C[row[lane]] = v[lane];
}
typedef struct {
    const asp_call *call;
    int64_t n, n_parts;
    const POSITION *weights;
    int bad;
} task_context_1;
static void task_1(void *context, int64_t part, int64_t end_part)
{
    task_context_1 *x = context;
    const asp_call *call = x->call;
    const int64_t begin = asp_boundary(x->weights, x->n, call->chunk, part, x->n_parts);
    const int64_t end = asp_boundary(x->weights, x->n, call->chunk, end_part, x->n_parts);
    f32x8 check_8 = {0};
    const asp_operand *A = call->A;
    const int64_t n_i = A->size[0];
    const POSITION *restrict k1_pos = A->pos[1];
    const uint16_t *restrict k1_crd = A->crd[1];
    const int64_t *restrict slice_begin = A->pos[3];
    const int64_t *restrict slice_what = A->crd[3];
    const int32_t *restrict slice_first = A->crd[4];
    const int32_t *restrict slice_rows = A->crd[5];
    const float *restrict vals = A->vals;
    const float *restrict B_ = (const float *)call->B;
    float *restrict C_ = (float *)call->C;
    for (int64_t i1 = begin; i1 < end; i1++) {
        const int64_t n_slots = k1_pos[i1 + 1] - k1_pos[i1];
        const float *v = vals + k1_pos[i1] * 16;
        const int64_t what = slice_what[i1];
        f32x8 sum0_0 = {0};
        f32x8 sum0_8 = {0};
        if ((what & 3) == 2) {
            const float *x = B_;
            const int32_t *at = (const int32_t *)(k1_crd + slice_begin[i1]);
            int64_t s = 0;
            for (; s + 1 <= n_slots; s += 1) {
                __builtin_prefetch(v + (s + 32) * 16 + 0);
                sum0_0 += load_f32x8(v + s * 16) * load_f32x8(x + at[s]);
                sum0_8 += load_f32x8(v + s * 16 + 8) * load_f32x8(x + at[s] + 8);
            }
        }
        else if ((what & 3) == 0) {
            const float *x = B_;
            const int32_t *at = (const int32_t *)(k1_crd + slice_begin[i1]);
            int64_t s = 0;
            for (; s + 1 <= n_slots; s += 1) {
                __builtin_prefetch(v + (s + 32) * 16 + 0);
                __builtin_prefetch(at + (s + 32) * 16 + 0);
                sum0_0 += load_f32x8(v + s * 16) * gather_32_f32x8_1(x, at + s * 16);
                sum0_8 += load_f32x8(v + s * 16 + 8) * gather_32_f32x8_1(x, at + s * 16 + 8);
            }
        }
        else {
            const float *x = B_ + (what >> 3);
            const uint16_t *at = (const uint16_t *)(k1_crd + slice_begin[i1]);
            int64_t s = 0;
            for (; s + 1 <= n_slots; s += 1) {
                __builtin_prefetch(v + (s + 32) * 16 + 0);
                __builtin_prefetch(at + (s + 32) * 16 + 0);
                sum0_0 += load_f32x8(v + s * 16) * gather_16_f32x8_1(x, at + s * 16);
                sum0_8 += load_f32x8(v + s * 16 + 8) * gather_16_f32x8_1(x, at + s * 16 + 8);
            }
        }
        check_8 += sum0_0 * 0;
        check_8 += sum0_8 * 0;
        if (what & 4) {
            store_f32x8(C_ + slice_first[i1] + 0, sum0_0);
            store_f32x8(C_ + slice_first[i1] + 8, sum0_8);
        }
        else {
            const int32_t *row = slice_rows + slice_first[i1] * (int64_t)16;
            scatter_f32x8_1(C_, row + 0, sum0_0, n_i);
            scatter_f32x8_1(C_, row + 8, sum0_8, n_i);
        }
    }
    if (sum_f32x8(check_8) != 0) /* nan: a result was not finite */
        x->bad = 1;
}
static int asp_kernel_1(const asp_operand *A, uintptr_t B, int64_t ldB, uintptr_t C, int64_t ldC, int64_t n_j, int64_t n_threads, int64_t chunk)
{
    const asp_call arguments = {A, B, C, ldB, ldC, n_j, n_threads, chunk}, *call = &arguments;
    int bad = 0;
    const int64_t n_i = A->size[0];
    const int64_t n_k = A->size[1];
    const POSITION *restrict k1_pos = A->pos[1];
    float *restrict C_ = (float *)call->C;
    const int64_t n_i1 = (n_i + 15) / 16;
    if (n_i == 0 || n_k == 0) {
        for (int64_t at = 0; at < n_i; at++) C_[at] = 0;
        return 0;
    }
    {
        task_context_1 x = {.call = call, .n = n_i1, .weights = k1_pos};
        x.n_parts = chunk > 0 ? (x.n + chunk - 1) / chunk : n_threads > 1 ? 16 * n_threads : 1;
        if (!A->parallel || n_threads <= 1)
            task_1(&x, 0, x.n_parts);
        else {
            const double serial_ns = (double)A->n_positions[2] * (0.2 + 0.04 * (double)n_j);
            A->parallel(task_1, &x, x.n_parts, 1, 1 + x.n_parts / (4 * n_threads), (int)n_threads, serial_ns);
        }
        bad |= x.bad;
    }
    return bad;
}
