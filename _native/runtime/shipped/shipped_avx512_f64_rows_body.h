/* Generated kernels, written by tools/shipped_kernels.py: do not edit. */
/* autosparse kernel
 * i1:U,k1:C,i0:U | i=8 | bits=16; loops i1 k1 i0, parallel i1
 * float64, avx512; unroll 4, prefetch 0
 *
 * C[i] += A[i,k] * B[k]    # A: i1:U,k1:C,i0:U
 * parallel for i1 in 0..ceil(n_i / 8):
 *   p_i1 = 0 * ceil(n_i / 8) + i1
 *   accumulate C[i] x 4 (zero, check finite):
 *     for p_k1 in k1_pos[p_i1]..: k1 = k1_crd[p_k1]  # unroll 4
 *       block [i0] lanes i0: C[i] += A[i,k] * B[k]
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
static inline f64x8 load_part_f64x8(const double *p, int64_t n)
{
    f64x8 v = {0};
    for (int lane = 0; lane < 8 && lane < n; lane++)
        v[lane] = p[lane];
    return v;
}
static inline void store_part_f64x8(double *p, f64x8 v, int64_t n)
{
    for (int lane = 0; lane < 8 && lane < n; lane++)
        p[lane] = v[lane];
}
/* Reads past the end give the last value: it meets a padded zero. */
static inline f64x8 load_clamped_f64x8(const double *p, int64_t k, int64_t n)
{
    f64x8 v;
    if (k + 8 <= n)
        return load_f64x8(p + k);
    for (int lane = 0; lane < 8; lane++)
        v[lane] = p[k + lane < n ? k + lane : n - 1];
    return v;
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
    const double *restrict vals = A->vals;
    const double *restrict B_ = (const double *)call->B;
    double *restrict C_ = (double *)call->C;
    for (int64_t i1 = begin; i1 < end; i1++) {
        const int64_t p_i1 = i1;
        {
            f64x8 sum_i0_0 = (f64x8){0};
            f64x8 sum1_i0_0 = (f64x8){0};
            f64x8 sum2_i0_0 = (f64x8){0};
            f64x8 sum3_i0_0 = (f64x8){0};
            int64_t p_k1 = k1_pos[p_i1];
            const int64_t end_k1 = k1_pos[p_i1 + 1];
            for (; p_k1 + 4 <= end_k1; p_k1 += 4) {
                const int64_t step_k1 = p_k1;
                {
                    const int64_t p_k1 = step_k1 + 0, k1 = k1_crd[p_k1];
                    const f64x1 b = *(B_ + k1);
                    sum_i0_0 += load_f64x8(vals + p_k1 * 8) * b;
                }
                {
                    const int64_t p_k1 = step_k1 + 1, k1 = k1_crd[p_k1];
                    const f64x1 b = *(B_ + k1);
                    sum1_i0_0 += load_f64x8(vals + p_k1 * 8) * b;
                }
                {
                    const int64_t p_k1 = step_k1 + 2, k1 = k1_crd[p_k1];
                    const f64x1 b = *(B_ + k1);
                    sum2_i0_0 += load_f64x8(vals + p_k1 * 8) * b;
                }
                {
                    const int64_t p_k1 = step_k1 + 3, k1 = k1_crd[p_k1];
                    const f64x1 b = *(B_ + k1);
                    sum3_i0_0 += load_f64x8(vals + p_k1 * 8) * b;
                }
            }
            for (; p_k1 < end_k1; p_k1++) {
                const int64_t k1 = k1_crd[p_k1];
                const f64x1 b = *(B_ + k1);
                sum_i0_0 += load_f64x8(vals + p_k1 * 8) * b;
            }
            sum_i0_0 += sum1_i0_0;
            sum_i0_0 += sum2_i0_0;
            sum_i0_0 += sum3_i0_0;
            check_8 += sum_i0_0 * 0;
            if (n_i - (i1 * 8) >= 8)
                store_f64x8(C_ + i1 * 8, sum_i0_0);
            else
                store_part_f64x8(C_ + i1 * 8, sum_i0_0, n_i - (i1 * 8));
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
    const int64_t n_i1 = (n_i + 7) / 8;
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
            const double serial_ns = (double)A->n_positions[2] * (0.6 + 0.04 * (double)n_j);
            A->parallel(task_0, &x, x.n_parts, 1, 1 + x.n_parts / (4 * n_threads), (int)n_threads, serial_ns);
        }
        bad |= x.bad;
    }
    return bad;
}
