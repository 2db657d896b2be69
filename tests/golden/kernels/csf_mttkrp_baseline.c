/* autosparse kernel
 * k1:C,i1:C,l1:C; loops k1 i1 j1 l1 j0, parallel k1
 * float64, indices int64, baseline; unroll 1, prefetch 0
 *
 * M[i,j] += T[i,k,l] * B[k,j] * C[l,j]    # T: k1:C,i1:C,l1:C; outputs of their own for threads
 * M[i,j] = 0
 * parallel for p_k1 in k1_pos[0]..: k1 = k1_crd[p_k1]
 *   for p_i1 in i1_pos[p_k1]..: i1 = i1_crd[p_i1]
 *     for j in tiles of 2 of 0..n_j:
 *       accumulate M[i,j] (load, times B[k,j]):
 *         for p_l1 in l1_pos[p_i1]..: l1 = l1_crd[p_l1]
 *           block [j0] lanes j0: M[i,j] += T[i,k,l] * C[l,j]
 */
typedef struct {
    const asp_call *call;
    int64_t n, n_parts, step;
    void *own;
    const int64_t *weights;
    int64_t low_k1;
    int bad;
} task_context;

static void task(void *context, int64_t part, int64_t end_part)
{
    task_context *x = context;
    const asp_call *call = x->call;
    const int64_t chunk = call->chunk, n_parts = x->n_parts;
    const int64_t low_k1 = x->low_k1;
    const asp_operand *A = call->A;
    const int64_t ldB = call->ldB;
    const int64_t ldC = call->ldC;
    const int64_t n_j = call->n_j;
    const int32_t *restrict k1_crd = A->crd[0];
    const int64_t *restrict i1_pos = A->pos[1];
    const int32_t *restrict i1_crd = A->crd[1];
    const int64_t *restrict l1_pos = A->pos[2];
    const int32_t *restrict l1_crd = A->crd[2];
    const double *restrict vals = A->vals;
    const double *restrict B_ = (const double *)call->B;
    const double *restrict C_ = (const double *)call->C;
    for (; part < end_part; part++) {
        double *restrict M_ = part ? (double *)x->own + (part - 1) * x->step : (double *)call->M;
        const int64_t ldM = part ? n_j : call->ldM;
        if (part)
            __builtin_memset(M_, 0, (size_t)x->step * sizeof(double));
        const int64_t n_rounds = chunk > 0 ? (x->n + chunk * n_parts - 1) / (chunk * n_parts) : 1;
        for (int64_t round = 0; round < n_rounds; round++) {
            const int64_t at = round * n_parts + part, n_shares = n_rounds * n_parts;
            const int64_t begin = asp_min(x->n, asp_boundary(x->weights, x->n, chunk, at, n_shares));
            const int64_t end = asp_min(x->n, asp_boundary(x->weights, x->n, chunk, at + 1, n_shares));
            for (int64_t p_k1 = low_k1 + begin; p_k1 < low_k1 + end; p_k1++) {
                const int64_t k1 = k1_crd[p_k1];
                int64_t p_i1 = i1_pos[p_k1];
                const int64_t end_i1 = i1_pos[p_k1 + 1];
                for (; p_i1 < end_i1; p_i1++) {
                    const int64_t i1 = i1_crd[p_i1];
                    const int64_t end_j = n_j;
                    for (int64_t j = 0; j < end_j;) {
                        if (end_j - j >= 2) {
                            {
                                f64x2 sum_j0_0 = (f64x2){0};
                                int64_t p_l1 = l1_pos[p_i1];
                                const int64_t end_l1 = l1_pos[p_i1 + 1];
                                for (; p_l1 < end_l1; p_l1++) {
                                    const int64_t l1 = l1_crd[p_l1];
                                    const f64x2 c_j0_0 = load_f64x2(C_ + l1 * ldC + j);
                                    sum_j0_0 += vals[p_l1] * c_j0_0;
                                }
                                const f64x2 b_j0_0 = load_f64x2(B_ + k1 * ldB + j);
                                sum_j0_0 = (load_f64x2(M_ + i1 * ldM + j)) + sum_j0_0 * b_j0_0;
                                store_f64x2(M_ + i1 * ldM + j, sum_j0_0);
                            }
                            j += 2;
                        }
                        else {
                            {
                                f64x1 sum_j0_0 = (f64x1){0};
                                int64_t p_l1 = l1_pos[p_i1];
                                const int64_t end_l1 = l1_pos[p_i1 + 1];
                                for (; p_l1 < end_l1; p_l1++) {
                                    const int64_t l1 = l1_crd[p_l1];
                                    const f64x1 c_j0_0 = load_f64x1(C_ + l1 * ldC + j);
                                    sum_j0_0 += vals[p_l1] * c_j0_0;
                                }
                                const f64x1 b_j0_0 = load_f64x1(B_ + k1 * ldB + j);
                                sum_j0_0 = (load_f64x1(M_ + i1 * ldM + j)) + sum_j0_0 * b_j0_0;
                                store_f64x1(M_ + i1 * ldM + j, sum_j0_0);
                            }
                            j += 1;
                        }
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
            double *restrict to = (double *)call->M + row * call->ldM;
            const double *restrict from = (double *)x->own + (part - 1) * x->step + row * n_columns;
            for (int64_t column = 0; column < n_columns; column++)
                to[column] += from[column];
        }
}

int asp_kernel(const asp_operand *A, const uintptr_t *at, const int64_t *ld, int64_t n_j, int64_t n_threads, int64_t chunk)
{
    const asp_call arguments = {A, at[0], at[1], at[2], ld[0], ld[1], ld[2], n_j, n_threads, chunk}, *call = &arguments;
    int bad = 0;
    const int64_t n_i = A->size[0];
    const int64_t n_k = A->size[1];
    const int64_t n_l = A->size[2];
    const int64_t ldM = call->ldM;
    const int64_t *restrict k1_pos = A->pos[0];
    const int64_t *restrict i1_pos = A->pos[1];
    double *restrict M_ = (double *)call->M;
    if (n_i == 0 || n_k == 0 || n_l == 0) {
        for (int64_t at = 0; at < n_i; at++) for (int64_t to = 0; to < n_j; to++) M_[at * ldM + to] = 0;
        return 0;
    }
    for (int64_t at = 0; at < n_i; at++) for (int64_t to = 0; to < n_j; to++) M_[at * ldM + to] = 0;
    const int64_t low_k1 = k1_pos[0];
    {
        task_context x = {.call = call, .n = k1_pos[1] - low_k1, .weights = i1_pos + low_k1};
        x.low_k1 = low_k1;
        x.step = (n_i * n_j + 15) / 16 * 16;
        const int64_t most = 1 + 268435456 / (x.step * (int64_t)sizeof(double) + 1);
        const int64_t wanted = asp_min(asp_min(n_threads, most), x.n);
        const size_t own_bytes = wanted > 1 ? (size_t)((wanted - 1) * x.step) * sizeof(double) : 0;
        x.own = own_bytes ? A->take(own_bytes) : NULL;
        x.n_parts = x.own ? wanted : 1;
        const double entries = (double)A->n_positions[2];
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
