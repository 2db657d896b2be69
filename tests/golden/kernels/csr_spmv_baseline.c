/* autosparse kernel
 * i1:U,k1:C; loops i1 k1, parallel i1
 * float64, indices int64, baseline; unroll 4, prefetch 0
 *
 * C[i] += A[i,k] * B[k]    # A: i1:U,k1:C
 * parallel for i1 in 0..n_i:
 *   p_i1 = 0 * n_i + i1
 *   accumulate C[i] x 4 (zero):
 *     for p_k1 in k1_pos[p_i1]..: k1 = k1_crd[p_k1]  # unroll 4 as lanes
 *       block [-] lanes -: C[i] += A[i,k] * B[k]
 */
typedef struct {
    const asp_call *call;
    int64_t n, n_parts;
    const int64_t *weights;
    int bad;
} task_context;

static void task(void *context, int64_t part, int64_t end_part)
{
    task_context *x = context;
    const asp_call *call = x->call;
    const int64_t begin = asp_boundary(x->weights, x->n, call->chunk, part, x->n_parts);
    const int64_t end = asp_boundary(x->weights, x->n, call->chunk, end_part, x->n_parts);
    const asp_operand *A = call->A;
    const int64_t *restrict k1_pos = A->pos[1];
    const int64_t *restrict k1_crd = A->crd[1];
    const double *restrict vals = A->vals;
    const double *restrict B_ = (const double *)call->B;
    double *restrict C_ = (double *)call->C;
    for (int64_t i1 = begin; i1 < end; i1++) {
        const int64_t p_i1 = i1;
        {
            f64x1 rest = 0;
            f64x2 sum_0 = {0};
            f64x2 sum_1 = {0};
            int64_t p_k1 = k1_pos[p_i1];
            const int64_t end_k1 = k1_pos[p_i1 + 1];
            for (; p_k1 + 4 <= end_k1; p_k1 += 4) {
                sum_0 += load_f64x2(vals + p_k1) * gather_f64x2(B_, k1_crd + p_k1);
                sum_1 += load_f64x2(vals + p_k1 + 2) * gather_f64x2(B_, k1_crd + p_k1 + 2);
            }
            for (; p_k1 < end_k1; p_k1++) {
                rest += vals[p_k1] * B_[k1_crd[p_k1]];
            }
            *(C_ + i1) = rest + sum_f64x2(sum_0 + sum_1);
        }
    }
}

int asp_kernel(const asp_operand *A, uintptr_t B, int64_t ldB, uintptr_t C, int64_t ldC, int64_t n_j, int64_t n_threads, int64_t chunk)
{
    const asp_call arguments = {A, B, C, ldB, ldC, n_j, n_threads, chunk}, *call = &arguments;
    int bad = 0;
    const int64_t n_i = A->size[0];
    const int64_t n_k = A->size[1];
    const int64_t *restrict k1_pos = A->pos[1];
    double *restrict C_ = (double *)call->C;
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
