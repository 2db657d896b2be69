/* autosparse kernel
 * i1:U,k1:S,i0:U | i=4; loops i1 k1 i0, parallel i1
 * float64, indices int64, baseline; unroll 2, prefetch 0
 *
 * C[i] += A[i,k] * B[k]    # A: i1:U,k1:S,i0:U
 * parallel for i1 in 0..ceil(n_i / 4):
 *   for p_k1 in k1_pos[i1]..: lanes i0 in 0..4: C[i] += A[i,k] * B[k], i = i1*4 + i0, k = k1_crd[p_k1,i0]  # 2 copies, check finite
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
    f64x2 check_2 = {0};
    const asp_operand *A = call->A;
    const int64_t n_i = A->size[0];
    const int64_t *restrict k1_pos = A->pos[1];
    const int32_t *restrict k1_crd = A->crd[1];
    const double *restrict vals = A->vals;
    const double *restrict B_ = (const double *)call->B;
    double *restrict C_ = (double *)call->C;
    for (int64_t i1 = begin; i1 < end; i1++) {
        const int64_t n_slots = k1_pos[i1 + 1] - k1_pos[i1];
        const double *v = vals + k1_pos[i1] * 4;
        f64x2 sum0_0 = {0};
        f64x2 sum0_2 = {0};
        f64x2 sum1_0 = {0};
        f64x2 sum1_2 = {0};
        {
            const double *x = B_;
            const int32_t *at = (const int32_t *)(k1_crd + k1_pos[i1] * 4);
            int64_t s = 0;
            for (; s + 2 <= n_slots; s += 2) {
                sum0_0 += load_f64x2(v + s * 4) * gather_32_f64x2(x, at + s * 4);
                sum0_2 += load_f64x2(v + s * 4 + 2) * gather_32_f64x2(x, at + s * 4 + 2);
                sum1_0 += load_f64x2(v + (s + 1) * 4) * gather_32_f64x2(x, at + (s + 1) * 4);
                sum1_2 += load_f64x2(v + (s + 1) * 4 + 2) * gather_32_f64x2(x, at + (s + 1) * 4 + 2);
            }
            if (n_slots & 1) {
                sum0_0 += load_f64x2(v + s * 4) * gather_32_f64x2(x, at + s * 4);
                sum0_2 += load_f64x2(v + s * 4 + 2) * gather_32_f64x2(x, at + s * 4 + 2);
            }
        }
        sum0_0 += sum1_0;
        check_2 += sum0_0 * 0;
        sum0_2 += sum1_2;
        check_2 += sum0_2 * 0;
        if (n_i - (i1 * 4 + 0) >= 2)
            store_f64x2(C_ + i1 * 4 + 0, sum0_0);
        else
            store_part_f64x2(C_ + i1 * 4 + 0, sum0_0, n_i - (i1 * 4 + 0));
        if (n_i - (i1 * 4 + 2) >= 2)
            store_f64x2(C_ + i1 * 4 + 2, sum0_2);
        else
            store_part_f64x2(C_ + i1 * 4 + 2, sum0_2, n_i - (i1 * 4 + 2));
    }
    if (sum_f64x2(check_2) != 0) /* nan: a result was not finite */
        x->bad = 1;
}

int asp_kernel(const asp_operand *A, uintptr_t B, int64_t ldB, uintptr_t C, int64_t ldC, int64_t n_j, int64_t n_threads, int64_t chunk)
{
    const asp_call arguments = {A, B, C, ldB, ldC, n_j, n_threads, chunk}, *call = &arguments;
    int bad = 0;
    const int64_t n_i = A->size[0];
    const int64_t n_k = A->size[1];
    const int64_t *restrict k1_pos = A->pos[1];
    double *restrict C_ = (double *)call->C;
    const int64_t n_i1 = (n_i + 3) / 4;
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
            const double serial_ns = (double)A->n_positions[2] * (0.4 + 0.04 * (double)n_j);
            A->parallel(task, &x, x.n_parts, 1, 1 + x.n_parts / (4 * n_threads), (int)n_threads, serial_ns);
        }
        bad |= x.bad;
    }
    return bad;
}
