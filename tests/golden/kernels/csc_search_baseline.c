/* autosparse kernel
 * k1:U,i1:C; loops i1 k1, parallel i1
 * float64, indices int32, baseline; unroll 1, prefetch 0
 *
 * C[i] += A[i,k] * B[k]    # A: k1:U,i1:C
 * parallel for i1 in 0..n_i:
 *   accumulate C[i] (zero):
 *     for k1 in 0..n_k:
 *       p_k1 = 0 * n_k + k1
 *       search p_i1 in i1_pos[p_k1]..: i1_crd[p_i1] == i1
 *         block [-] lanes -: C[i] += A[i,k] * B[k]
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
    const int64_t n_k = A->size[1];
    const int32_t *restrict i1_pos = A->pos[1];
    const int32_t *restrict i1_crd = A->crd[1];
    const double *restrict vals = A->vals;
    const double *restrict B_ = (const double *)call->B;
    double *restrict C_ = (double *)call->C;
    const int64_t n_k1 = n_k;
    for (int64_t i1 = begin; i1 < end; i1++) {
        {
            f64x1 sum = (f64x1){0};
            for (int64_t k1 = 0, end_k1 = n_k1; k1 < end_k1; k1++) {
                const int64_t p_k1 = k1;
                const int64_t end_i1 = i1_pos[p_k1 + 1];
                const int sorted_i1 = (int)(A->sorted >> 1 & 1);
                for (int64_t p_i1 = asp_first(i1_crd, i1_pos[p_k1], end_i1, i1, sorted_i1); p_i1 < end_i1; p_i1++) {
                    if ((int64_t)i1_crd[p_i1] != i1) {
                        if (sorted_i1)
                            break;
                        continue;
                    }
                    const f64x1 b = *(B_ + k1);
                    sum += vals[p_i1] * b;
                }
            }
            *(C_ + i1) = sum_f64x1(sum);
        }
    }
}

int asp_kernel(const asp_operand *A, uintptr_t B, int64_t ldB, uintptr_t C, int64_t ldC, int64_t n_j, int64_t n_threads, int64_t chunk)
{
    const asp_call arguments = {A, B, C, ldB, ldC, n_j, n_threads, chunk}, *call = &arguments;
    int bad = 0;
    const int64_t n_i = A->size[0];
    const int64_t n_k = A->size[1];
    double *restrict C_ = (double *)call->C;
    const int64_t n_i1 = n_i;
    if (n_i == 0 || n_k == 0) {
        for (int64_t at = 0; at < n_i; at++) C_[at] = 0;
        return 0;
    }
    {
        task_context x = {.call = call, .n = n_i1, .weights = NULL};
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
