/* autosparse kernel
 * i1:U,k1:C | symmetric=1; loops i1 k1, parallel i1
 * float64, indices int32, baseline; unroll 2, prefetch 0
 *
 * C[i] += A[i,k] * B[k]    # A: i1:U,k1:C; outputs of their own for threads
 * C[i] = 0
 * parallel for i1 in 0..n_i:
 *   p_i1 = 0 * n_i + i1
 *   accumulate C[i] x 2 (load):
 *     for p_k1 in k1_pos[p_i1]..: k1 = k1_crd[p_k1]  # unroll 2
 *       block [-] lanes -: C[i] += A[i,k] * B[k]
 *       C[k] += A[i,k] * B[i] unless k == i
 */
typedef struct {
    const asp_call *call;
    int64_t n, n_parts, step;
    void *own;
    const int32_t *weights;
    int bad;
} task_context;

static void task(void *context, int64_t part, int64_t end_part)
{
    task_context *x = context;
    const asp_call *call = x->call;
    const int64_t chunk = call->chunk, n_parts = x->n_parts;
    const asp_operand *A = call->A;
    const int32_t *restrict k1_pos = A->pos[1];
    const int32_t *restrict k1_crd = A->crd[1];
    const double *restrict vals = A->vals;
    const double *restrict B_ = (const double *)call->B;
    for (; part < end_part; part++) {
        double *restrict C_ = part ? (double *)x->own + (part - 1) * x->step : (double *)call->C;
        const int64_t ldC = part ? 1 : call->ldC;
        if (part)
            __builtin_memset(C_, 0, (size_t)x->step * sizeof(double));
        const int64_t n_rounds = chunk > 0 ? (x->n + chunk * n_parts - 1) / (chunk * n_parts) : 1;
        for (int64_t round = 0; round < n_rounds; round++) {
            const int64_t at = round * n_parts + part, n_shares = n_rounds * n_parts;
            const int64_t begin = asp_min(x->n, asp_boundary(x->weights, x->n, chunk, at, n_shares));
            const int64_t end = asp_min(x->n, asp_boundary(x->weights, x->n, chunk, at + 1, n_shares));
            for (int64_t i1 = begin; i1 < end; i1++) {
                const int64_t p_i1 = i1;
                {
                    f64x1 sum = (f64x1){*(C_ + i1)};
                    f64x1 sum1 = (f64x1){0};
                    int64_t p_k1 = k1_pos[p_i1];
                    const int64_t end_k1 = k1_pos[p_i1 + 1];
                    for (; p_k1 + 2 <= end_k1; p_k1 += 2) {
                        const int64_t step_k1 = p_k1;
                        {
                            const int64_t p_k1 = step_k1 + 0, k1 = k1_crd[p_k1];
                            const f64x1 b = *(B_ + k1);
                            sum += vals[p_k1] * b;
                            if (k1 != i1) {
                                *(C_ + k1) += vals[p_k1] * *(B_ + i1);
                            }
                        }
                        {
                            const int64_t p_k1 = step_k1 + 1, k1 = k1_crd[p_k1];
                            const f64x1 b = *(B_ + k1);
                            sum1 += vals[p_k1] * b;
                            if (k1 != i1) {
                                *(C_ + k1) += vals[p_k1] * *(B_ + i1);
                            }
                        }
                    }
                    for (; p_k1 < end_k1; p_k1++) {
                        const int64_t k1 = k1_crd[p_k1];
                        const f64x1 b = *(B_ + k1);
                        sum += vals[p_k1] * b;
                        if (k1 != i1) {
                            *(C_ + k1) += vals[p_k1] * *(B_ + i1);
                        }
                    }
                    sum += sum1;
                    *(C_ + i1) = sum_f64x1(sum);
                }
            }
        }
    }
}

static void task_merge(void *context, int64_t begin, int64_t end)
{
    task_context *x = context;
    const asp_call *call = x->call;
    const int64_t n_columns = 1;
    for (int64_t row = begin; row < end; row++)
        for (int64_t part = 1; part < x->n_parts; part++) {
            double *restrict to = (double *)call->C + row * 1;
            const double *restrict from = (double *)x->own + (part - 1) * x->step + row * n_columns;
            for (int64_t column = 0; column < n_columns; column++)
                to[column] += from[column];
        }
}

int asp_kernel(const asp_operand *A, uintptr_t B, int64_t ldB, uintptr_t C, int64_t ldC, int64_t n_j, int64_t n_threads, int64_t chunk)
{
    const asp_call arguments = {A, B, C, ldB, ldC, n_j, n_threads, chunk}, *call = &arguments;
    int bad = 0;
    const int64_t n_i = A->size[0];
    const int64_t n_k = A->size[1];
    const int32_t *restrict k1_pos = A->pos[1];
    double *restrict C_ = (double *)call->C;
    const int64_t n_i1 = n_i;
    if (n_i == 0 || n_k == 0) {
        for (int64_t at = 0; at < n_i; at++) C_[at] = 0;
        return 0;
    }
    for (int64_t at = 0; at < n_i; at++) C_[at] = 0;
    {
        task_context x = {.call = call, .n = n_i1, .weights = k1_pos};
        x.step = (n_i * 1 + 15) / 16 * 16;
        const int64_t most = 1 + 268435456 / (x.step * (int64_t)sizeof(double) + 1);
        const int64_t wanted = asp_min(asp_min(n_threads, most), x.n);
        const size_t own_bytes = wanted > 1 ? (size_t)((wanted - 1) * x.step) * sizeof(double) : 0;
        x.own = own_bytes ? A->take(own_bytes) : NULL;
        x.n_parts = x.own ? wanted : 1;
        const double entries = (double)A->n_positions[1];
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
