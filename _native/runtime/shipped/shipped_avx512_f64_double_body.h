/* Generated kernels, written by tools/shipped_kernels.py: do not edit. */
/* autosparse kernel
 * i1:U,k1:D,i0:U | i=16 | sigma=512 | bits=16; loops i1 k1 i0, parallel i1
 * float64, avx512; unroll 1, prefetch 32
 *
 * C[i] += A[i,k] * B[k]    # A: i1:U,k1:D,i0:U
 * parallel for i1 in 0..ceil(n_i / 16):
 *   for p_k1 in k1_pos[i1]..: lanes i0 in 0..16: C[i] += A[i,k] * B[k], i = rows[i1,i0], k = k1_crd[p_k1,i0] or k1_crd[p_k1] + i0  # 1 copies, check finite, 16 bits from a base, prefetch 32 ahead
 */
typedef double f64x2 __attribute__((vector_size(16)));
typedef double f64x2_unaligned __attribute__((vector_size(16), aligned(8), may_alias));
static inline f64x2 load_f64x2(const double *p) { return *(const f64x2_unaligned *)p; }
static inline void store_f64x2(double *p, f64x2 v) { *(f64x2_unaligned *)p = v; }
static inline double sum_f64x2(f64x2 v)
{
    union { f64x2 whole; f64x1 half[2]; } u = {v};
    return sum_f64x1(u.half[0] + u.half[1]);
}
typedef double f64x4 __attribute__((vector_size(32)));
typedef double f64x4_unaligned __attribute__((vector_size(32), aligned(8), may_alias));
static inline f64x4 load_f64x4(const double *p) { return *(const f64x4_unaligned *)p; }
static inline void store_f64x4(double *p, f64x4 v) { *(f64x4_unaligned *)p = v; }
static inline double sum_f64x4(f64x4 v)
{
    union { f64x4 whole; f64x2 half[2]; } u = {v};
    return sum_f64x2(u.half[0] + u.half[1]);
}
typedef double f64x8 __attribute__((vector_size(64)));
typedef double f64x8_unaligned __attribute__((vector_size(64), aligned(8), may_alias));
static inline f64x8 load_f64x8(const double *p) { return *(const f64x8_unaligned *)p; }
static inline void store_f64x8(double *p, f64x8 v) { *(f64x8_unaligned *)p = v; }
static inline double sum_f64x8(f64x8 v)
{
    union { f64x8 whole; f64x4 half[2]; } u = {v};
    return sum_f64x4(u.half[0] + u.half[1]);
}
static inline f64x8 gather_16_f64x8_0(const double *B, const uint16_t *at)
{
    const __m256i wide = _mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)at));
    return (f64x8)_mm512_i32gather_pd(wide, B, 8);
}
static inline f64x8 gather_32_f64x8_0(const double *B, const int32_t *at)
{
    return (f64x8)_mm512_i32gather_pd(_mm256_loadu_si256((const __m256i *)at), B, 8);
}
static inline void scatter_f64x8_0(double *C, const int32_t *row, f64x8 v, int64_t n)
{
    const __m256i rows = _mm256_loadu_si256((const __m256i *)row);
    const __mmask8 m = _mm256_cmplt_epi32_mask(rows, _mm256_set1_epi32((int)n));
    _mm512_mask_i32scatter_pd(C, m, rows, (__m512d)v, 8);
}
static void task_0(void *context, int64_t part, int64_t end_part)
{
    task_context_0 *x = context;
    const asp_call *call = x->call;
    const int64_t begin = asp_boundary(x->weights, x->n, call->chunk, part, x->n_parts);
    const int64_t end = asp_boundary(x->weights, x->n, call->chunk, end_part, x->n_parts);
    f64x8 check_8 = {0};
    const asp_operand *A = call->A;
    const int64_t n_i = A->size[0];
    const POSITION *restrict k1_pos = A->pos[1];
    const uint16_t *restrict k1_crd = A->crd[1];
    const int64_t *restrict slice_begin = A->pos[3];
    const int64_t *restrict slice_what = A->crd[3];
    const int32_t *restrict slice_first = A->crd[4];
    const int32_t *restrict slice_rows = A->crd[5];
    const double *restrict vals = A->vals;
    const double *restrict B_ = (const double *)call->B;
    double *restrict C_ = (double *)call->C;
    for (int64_t i1 = begin; i1 < end; i1++) {
        const int64_t n_slots = k1_pos[i1 + 1] - k1_pos[i1];
        const double *v = vals + k1_pos[i1] * 16;
        const int64_t what = slice_what[i1];
        f64x8 sum0_0 = {0};
        f64x8 sum0_8 = {0};
        if ((what & 3) == 2) {
            const double *x = B_;
            const int32_t *at = (const int32_t *)(k1_crd + slice_begin[i1]);
            int64_t s = 0;
            for (; s + 1 <= n_slots; s += 1) {
                __builtin_prefetch(v + (s + 32) * 16 + 0);
                __builtin_prefetch(v + (s + 32) * 16 + 8);
                sum0_0 += load_f64x8(v + s * 16) * load_f64x8(x + at[s]);
                sum0_8 += load_f64x8(v + s * 16 + 8) * load_f64x8(x + at[s] + 8);
            }
        }
        else if ((what & 3) == 0) {
            const double *x = B_;
            const int32_t *at = (const int32_t *)(k1_crd + slice_begin[i1]);
            int64_t s = 0;
            for (; s + 1 <= n_slots; s += 1) {
                __builtin_prefetch(v + (s + 32) * 16 + 0);
                __builtin_prefetch(v + (s + 32) * 16 + 8);
                __builtin_prefetch(at + (s + 32) * 16 + 0);
                sum0_0 += load_f64x8(v + s * 16) * gather_32_f64x8_0(x, at + s * 16);
                sum0_8 += load_f64x8(v + s * 16 + 8) * gather_32_f64x8_0(x, at + s * 16 + 8);
            }
        }
        else {
            const double *x = B_ + (what >> 3);
            const uint16_t *at = (const uint16_t *)(k1_crd + slice_begin[i1]);
            int64_t s = 0;
            for (; s + 1 <= n_slots; s += 1) {
                __builtin_prefetch(v + (s + 32) * 16 + 0);
                __builtin_prefetch(v + (s + 32) * 16 + 8);
                __builtin_prefetch(at + (s + 32) * 16 + 0);
                sum0_0 += load_f64x8(v + s * 16) * gather_16_f64x8_0(x, at + s * 16);
                sum0_8 += load_f64x8(v + s * 16 + 8) * gather_16_f64x8_0(x, at + s * 16 + 8);
            }
        }
        check_8 += sum0_0 * 0;
        check_8 += sum0_8 * 0;
        if (what & 4) {
            store_f64x8(C_ + slice_first[i1] + 0, sum0_0);
            store_f64x8(C_ + slice_first[i1] + 8, sum0_8);
        }
        else {
            const int32_t *row = slice_rows + slice_first[i1] * (int64_t)16;
            scatter_f64x8_0(C_, row + 0, sum0_0, n_i);
            scatter_f64x8_0(C_, row + 8, sum0_8, n_i);
        }
    }
    if (sum_f64x8(check_8) != 0) /* nan: a result was not finite */
        x->bad = 1;
}
static int asp_kernel_0(const asp_operand *A, uintptr_t B, int64_t ldB, uintptr_t C, int64_t ldC, int64_t n_j, int64_t n_threads, int64_t chunk)
{
    const asp_call arguments = {A, B, C, ldB, ldC, n_j, n_threads, chunk}, *call = &arguments;
    int bad = 0;
    const int64_t n_i = A->size[0];
    const int64_t n_k = A->size[1];
    const POSITION *restrict k1_pos = A->pos[1];
    double *restrict C_ = (double *)call->C;
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
static inline __m256d four_16_1(const double *B, const uint16_t *at)
{
    uint64_t four;
    __builtin_memcpy(&four, at, 8);
    const uint64_t a = four & 0xffff, b = four >> 16 & 0xffff, c = four >> 32 & 0xffff, d = four >> 48;
    const __m128d low_two = _mm_loadh_pd(_mm_load_sd(B + a), B + b);
    return _mm256_insertf128_pd(_mm256_castpd128_pd256(low_two), _mm_loadh_pd(_mm_load_sd(B + c), B + d), 1);
}
static inline __m256d four_32_1(const double *B, const int32_t *at)
{
    uint64_t low, high;
    __builtin_memcpy(&low, at, 8);
    __builtin_memcpy(&high, at + 2, 8);
    const uint64_t a = low & 0xffffffff, b = low >> 32, c = high & 0xffffffff, d = high >> 32;
    const __m128d low_two = _mm_loadh_pd(_mm_load_sd(B + a), B + b);
    return _mm256_insertf128_pd(_mm256_castpd128_pd256(low_two), _mm_loadh_pd(_mm_load_sd(B + c), B + d), 1);
}
static inline f64x8 gather_16_f64x8_1(const double *B, const uint16_t *at)
{
    return (f64x8)_mm512_insertf64x4(_mm512_castpd256_pd512(four_16_1(B, at)), four_16_1(B, at + 4), 1);
}
static inline f64x8 gather_32_f64x8_1(const double *B, const int32_t *at)
{
    return (f64x8)_mm512_insertf64x4(_mm512_castpd256_pd512(four_32_1(B, at)), four_32_1(B, at + 4), 1);
}
static inline void scatter_f64x8_1(double *C, const int32_t *row, f64x8 v, int64_t n)
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
    f64x8 check_8 = {0};
    const asp_operand *A = call->A;
    const int64_t n_i = A->size[0];
    const POSITION *restrict k1_pos = A->pos[1];
    const uint16_t *restrict k1_crd = A->crd[1];
    const int64_t *restrict slice_begin = A->pos[3];
    const int64_t *restrict slice_what = A->crd[3];
    const int32_t *restrict slice_first = A->crd[4];
    const int32_t *restrict slice_rows = A->crd[5];
    const double *restrict vals = A->vals;
    const double *restrict B_ = (const double *)call->B;
    double *restrict C_ = (double *)call->C;
    for (int64_t i1 = begin; i1 < end; i1++) {
        const int64_t n_slots = k1_pos[i1 + 1] - k1_pos[i1];
        const double *v = vals + k1_pos[i1] * 16;
        const int64_t what = slice_what[i1];
        f64x8 sum0_0 = {0};
        f64x8 sum0_8 = {0};
        if ((what & 3) == 2) {
            const double *x = B_;
            const int32_t *at = (const int32_t *)(k1_crd + slice_begin[i1]);
            int64_t s = 0;
            for (; s + 1 <= n_slots; s += 1) {
                __builtin_prefetch(v + (s + 32) * 16 + 0);
                __builtin_prefetch(v + (s + 32) * 16 + 8);
                sum0_0 += load_f64x8(v + s * 16) * load_f64x8(x + at[s]);
                sum0_8 += load_f64x8(v + s * 16 + 8) * load_f64x8(x + at[s] + 8);
            }
        }
        else if ((what & 3) == 0) {
            const double *x = B_;
            const int32_t *at = (const int32_t *)(k1_crd + slice_begin[i1]);
            int64_t s = 0;
            for (; s + 1 <= n_slots; s += 1) {
                __builtin_prefetch(v + (s + 32) * 16 + 0);
                __builtin_prefetch(v + (s + 32) * 16 + 8);
                __builtin_prefetch(at + (s + 32) * 16 + 0);
                sum0_0 += load_f64x8(v + s * 16) * gather_32_f64x8_1(x, at + s * 16);
                sum0_8 += load_f64x8(v + s * 16 + 8) * gather_32_f64x8_1(x, at + s * 16 + 8);
            }
        }
        else {
            const double *x = B_ + (what >> 3);
            const uint16_t *at = (const uint16_t *)(k1_crd + slice_begin[i1]);
            int64_t s = 0;
            for (; s + 1 <= n_slots; s += 1) {
                __builtin_prefetch(v + (s + 32) * 16 + 0);
                __builtin_prefetch(v + (s + 32) * 16 + 8);
                __builtin_prefetch(at + (s + 32) * 16 + 0);
                sum0_0 += load_f64x8(v + s * 16) * gather_16_f64x8_1(x, at + s * 16);
                sum0_8 += load_f64x8(v + s * 16 + 8) * gather_16_f64x8_1(x, at + s * 16 + 8);
            }
        }
        check_8 += sum0_0 * 0;
        check_8 += sum0_8 * 0;
        if (what & 4) {
            store_f64x8(C_ + slice_first[i1] + 0, sum0_0);
            store_f64x8(C_ + slice_first[i1] + 8, sum0_8);
        }
        else {
            const int32_t *row = slice_rows + slice_first[i1] * (int64_t)16;
            scatter_f64x8_1(C_, row + 0, sum0_0, n_i);
            scatter_f64x8_1(C_, row + 8, sum0_8, n_i);
        }
    }
    if (sum_f64x8(check_8) != 0) /* nan: a result was not finite */
        x->bad = 1;
}
static int asp_kernel_1(const asp_operand *A, uintptr_t B, int64_t ldB, uintptr_t C, int64_t ldC, int64_t n_j, int64_t n_threads, int64_t chunk)
{
    const asp_call arguments = {A, B, C, ldB, ldC, n_j, n_threads, chunk}, *call = &arguments;
    int bad = 0;
    const int64_t n_i = A->size[0];
    const int64_t n_k = A->size[1];
    const POSITION *restrict k1_pos = A->pos[1];
    double *restrict C_ = (double *)call->C;
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
