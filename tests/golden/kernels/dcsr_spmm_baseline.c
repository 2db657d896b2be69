/* autosparse kernel
 * i1:C,k1:C; loops i1 j1 k1 j0, parallel i1
 * float64, indices int32, baseline; unroll 1, prefetch 0
 *
 * C[i,j] += A[i,k] * B[k,j]    # A: i1:C,k1:C
 * C[i,j] = 0
 * parallel for p_i1 in i1_pos[0]..: i1 = i1_crd[p_i1]
 *   for j in tiles of 4 of 0..n_j:
 *     accumulate C[i,j] (load):
 *       for p_k1 in k1_pos[p_i1]..: k1 = k1_crd[p_k1]
 *         block [j0] lanes j0: C[i,j] += A[i,k] * B[k,j]
 */
typedef struct {
    const asp_call *call;
    int64_t n, n_parts;
    const int32_t *weights;
    int64_t low_i1;
    int bad;
} task_context;

static void task(void *context, int64_t part, int64_t end_part)
{
    task_context *x = context;
    const asp_call *call = x->call;
    const int64_t begin = asp_boundary(x->weights, x->n, call->chunk, part, x->n_parts);
    const int64_t end = asp_boundary(x->weights, x->n, call->chunk, end_part, x->n_parts);
    const int64_t low_i1 = x->low_i1;
    const asp_operand *A = call->A;
    const int64_t ldB = call->ldB;
    const int64_t ldC = call->ldC;
    const int64_t n_j = call->n_j;
    const int32_t *restrict i1_crd = A->crd[0];
    const int32_t *restrict k1_pos = A->pos[1];
    const int32_t *restrict k1_crd = A->crd[1];
    const double *restrict vals = A->vals;
    const double *restrict B_ = (const double *)call->B;
    double *restrict C_ = (double *)call->C;
    for (int64_t p_i1 = low_i1 + begin; p_i1 < low_i1 + end; p_i1++) {
        const int64_t i1 = i1_crd[p_i1];
        const int64_t end_j = n_j;
        for (int64_t j = 0; j < end_j;) {
            if (end_j - j >= 4) {
                {
                    f64x2 sum_j0_0 = load_f64x2(C_ + i1 * ldC + j);
                    f64x2 sum_j0_2 = load_f64x2(C_ + i1 * ldC + j + 2);
                    int64_t p_k1 = k1_pos[p_i1];
                    const int64_t end_k1 = k1_pos[p_i1 + 1];
                    for (; p_k1 < end_k1; p_k1++) {
                        const int64_t k1 = k1_crd[p_k1];
                        const f64x2 b_j0_0 = load_f64x2(B_ + k1 * ldB + j);
                        sum_j0_0 += vals[p_k1] * b_j0_0;
                        const f64x2 b_j0_2 = load_f64x2(B_ + k1 * ldB + j + 2);
                        sum_j0_2 += vals[p_k1] * b_j0_2;
                    }
                    store_f64x2(C_ + i1 * ldC + j, sum_j0_0);
                    store_f64x2(C_ + i1 * ldC + j + 2, sum_j0_2);
                }
                j += 4;
            }
            else if (end_j - j >= 2) {
                {
                    f64x2 sum_j0_0 = load_f64x2(C_ + i1 * ldC + j);
                    int64_t p_k1 = k1_pos[p_i1];
                    const int64_t end_k1 = k1_pos[p_i1 + 1];
                    for (; p_k1 < end_k1; p_k1++) {
                        const int64_t k1 = k1_crd[p_k1];
                        const f64x2 b_j0_0 = load_f64x2(B_ + k1 * ldB + j);
                        sum_j0_0 += vals[p_k1] * b_j0_0;
                    }
                    store_f64x2(C_ + i1 * ldC + j, sum_j0_0);
                }
                j += 2;
            }
            else {
                {
                    f64x1 sum_j0_0 = load_f64x1(C_ + i1 * ldC + j);
                    int64_t p_k1 = k1_pos[p_i1];
                    const int64_t end_k1 = k1_pos[p_i1 + 1];
                    for (; p_k1 < end_k1; p_k1++) {
                        const int64_t k1 = k1_crd[p_k1];
                        const f64x1 b_j0_0 = load_f64x1(B_ + k1 * ldB + j);
                        sum_j0_0 += vals[p_k1] * b_j0_0;
                    }
                    store_f64x1(C_ + i1 * ldC + j, sum_j0_0);
                }
                j += 1;
            }
        }
    }
}

int asp_kernel(const asp_operand *A, uintptr_t B, int64_t ldB, uintptr_t C, int64_t ldC, int64_t n_j, int64_t n_threads, int64_t chunk)
{
    const asp_call arguments = {A, B, C, ldB, ldC, n_j, n_threads, chunk}, *call = &arguments;
    int bad = 0;
    const int64_t n_i = A->size[0];
    const int64_t n_k = A->size[1];
    const int32_t *restrict i1_pos = A->pos[0];
    const int32_t *restrict k1_pos = A->pos[1];
    double *restrict C_ = (double *)call->C;
    if (n_i == 0 || n_k == 0) {
        for (int64_t at = 0; at < n_i; at++) for (int64_t to = 0; to < n_j; to++) C_[at * ldC + to] = 0;
        return 0;
    }
    for (int64_t at = 0; at < n_i; at++) for (int64_t to = 0; to < n_j; to++) C_[at * ldC + to] = 0;
    const int64_t low_i1 = i1_pos[0];
    {
        task_context x = {.call = call, .n = i1_pos[1] - low_i1, .weights = k1_pos + low_i1};
        x.low_i1 = low_i1;
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
