/* autosparse kernel
 * i1:U,k1:C; loops i1 k1, parallel i1
 * float32, indices int32, avx512; unroll 16, prefetch 0
 *
 * C[i] += A[i,k] * B[k]    # A: i1:U,k1:C
 * parallel for i1 in 0..n_i:
 *   p_i1 = 0 * n_i + i1
 *   accumulate C[i] x 16 (zero):
 *     for p_k1 in k1_pos[p_i1]..: k1 = k1_crd[p_k1]  # unroll 16 as lanes
 *       block [-] lanes -: C[i] += A[i,k] * B[k]
 */
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
    const int32_t *restrict k1_crd = A->crd[1];
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
    if (A->done) A->done(A->observer, begin, end);
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
