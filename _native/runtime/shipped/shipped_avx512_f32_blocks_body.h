/* Generated kernels, written by tools/shipped_kernels.py: do not edit. */
/* autosparse kernel
 * i1:U,k1:C,i0:U,k0:U | i=3,k=3 | bits=16; loops i1 k1 i0 k0, parallel i1
 * float32, avx512; unroll 1, prefetch 0
 *
 * C[i] += A[i,k] * B[k]    # A: i1:U,k1:C,i0:U,k0:U
 * parallel for i1 in 0..ceil(n_i / 3):
 *   p_i1 = 0 * ceil(n_i / 3) + i1
 *   accumulate C[i] (zero, check finite):
 *     for p_k1 in k1_pos[p_i1]..: k1 = k1_crd[p_k1]
 *       block [i0,k0] lanes k0: C[i] += A[i,k] * B[k]
 */
static inline f32x1 load_part_f32x1(const float *p, int64_t n)
{
    f32x1 v = {0};
    for (int lane = 0; lane < 1 && lane < n; lane++)
        v = p[lane];
    return v;
}
static inline void store_part_f32x1(float *p, f32x1 v, int64_t n)
{
    for (int lane = 0; lane < 1 && lane < n; lane++)
        p[lane] = v;
}
/* Reads past the end give the last value: it meets a padded zero. */
static inline f32x1 load_clamped_f32x1(const float *p, int64_t k, int64_t n)
{
    f32x1 v;
    if (k + 1 <= n)
        return load_f32x1(p + k);
    for (int lane = 0; lane < 1; lane++)
        v = p[k + lane < n ? k + lane : n - 1];
    return v;
}
static void task_0(void *context, int64_t part, int64_t end_part)
{
    task_context_0 *x = context;
    const asp_call *call = x->call;
    const int64_t begin = asp_boundary(x->weights, x->n, call->chunk, part, x->n_parts);
    const int64_t end = asp_boundary(x->weights, x->n, call->chunk, end_part, x->n_parts);
    f32x1 check_1 = {0};
    const asp_operand *A = call->A;
    const int64_t n_i = A->size[0];
    const int64_t n_k = A->size[1];
    const POSITION *restrict k1_pos = A->pos[1];
    const uint16_t *restrict k1_crd = A->crd[1];
    const float *restrict vals = A->vals;
    const float *restrict B_ = (const float *)call->B;
    float *restrict C_ = (float *)call->C;
    for (int64_t i1 = begin; i1 < end; i1++) {
        const int64_t p_i1 = i1;
        {
            f32x1 sum_i0_0 = (f32x1){0};
            f32x1 sum_i0_1 = (f32x1){0};
            f32x1 sum_i0_2 = (f32x1){0};
            int64_t p_k1 = k1_pos[p_i1];
            const int64_t end_k1 = k1_pos[p_i1 + 1];
            for (; p_k1 < end_k1; p_k1++) {
                const int64_t k1 = k1_crd[p_k1];
                const f32x1 b_k0_0 = load_clamped_f32x1(B_, k1 * 3, n_k);
                sum_i0_0 += load_f32x1(vals + p_k1 * 9) * b_k0_0;
                sum_i0_1 += load_f32x1(vals + p_k1 * 9 + 3) * b_k0_0;
                sum_i0_2 += load_f32x1(vals + p_k1 * 9 + 6) * b_k0_0;
                const f32x1 b_k0_1 = load_clamped_f32x1(B_, k1 * 3 + 1, n_k);
                sum_i0_0 += load_f32x1(vals + p_k1 * 9 + 1) * b_k0_1;
                sum_i0_1 += load_f32x1(vals + p_k1 * 9 + 4) * b_k0_1;
                sum_i0_2 += load_f32x1(vals + p_k1 * 9 + 7) * b_k0_1;
                const f32x1 b_k0_2 = load_clamped_f32x1(B_, k1 * 3 + 2, n_k);
                sum_i0_0 += load_f32x1(vals + p_k1 * 9 + 2) * b_k0_2;
                sum_i0_1 += load_f32x1(vals + p_k1 * 9 + 5) * b_k0_2;
                sum_i0_2 += load_f32x1(vals + p_k1 * 9 + 8) * b_k0_2;
            }
            check_1 += sum_i0_0 * 0;
            *(C_ + i1 * 3) = sum_f32x1(sum_i0_0);
            if (i1 * 3 + 1 < n_i) {
                check_1 += sum_i0_1 * 0;
                *(C_ + i1 * 3 + 1) = sum_f32x1(sum_i0_1);
            }
            if (i1 * 3 + 2 < n_i) {
                check_1 += sum_i0_2 * 0;
                *(C_ + i1 * 3 + 2) = sum_f32x1(sum_i0_2);
            }
        }
    }
    if (sum_f32x1(check_1) != 0) /* nan: a result was not finite */
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
