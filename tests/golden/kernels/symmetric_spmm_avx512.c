/* autosparse kernel
 * i1:U,k1:C | symmetric=1; loops i1 j1 k1 j0, parallel i1
 * float32, indices int32, avx512; unroll 1, prefetch 0
 *
 * C[i,j] += A[i,k] * B[k,j]    # A: i1:U,k1:C; outputs of their own for threads
 * C[i,j] = 0
 * parallel for i1 in 0..n_i:
 *   p_i1 = 0 * n_i + i1
 *   for j in tiles of 32 of 0..n_j:
 *     accumulate C[i,j] (load):
 *       for p_k1 in k1_pos[p_i1]..: k1 = k1_crd[p_k1]
 *         block [j0] lanes j0: C[i,j] += A[i,k] * B[k,j]
 *         C[k,j] += A[i,k] * B[i,j] unless k == i
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
    const int64_t ldB = call->ldB;
    const int64_t n_j = call->n_j;
    const int32_t *restrict k1_pos = A->pos[1];
    const int32_t *restrict k1_crd = A->crd[1];
    const float *restrict vals = A->vals;
    const float *restrict B_ = (const float *)call->B;
    for (; part < end_part; part++) {
        float *restrict C_ = part ? (float *)x->own + (part - 1) * x->step : (float *)call->C;
        const int64_t ldC = part ? n_j : call->ldC;
        if (part)
            __builtin_memset(C_, 0, (size_t)x->step * sizeof(float));
        const int64_t n_rounds = chunk > 0 ? (x->n + chunk * n_parts - 1) / (chunk * n_parts) : 1;
        for (int64_t round = 0; round < n_rounds; round++) {
            const int64_t at = round * n_parts + part, n_shares = n_rounds * n_parts;
            const int64_t begin = asp_min(x->n, asp_boundary(x->weights, x->n, chunk, at, n_shares));
            const int64_t end = asp_min(x->n, asp_boundary(x->weights, x->n, chunk, at + 1, n_shares));
            for (int64_t i1 = begin; i1 < end; i1++) {
                const int64_t p_i1 = i1;
                const int64_t end_j = n_j;
                for (int64_t j = 0; j < end_j;) {
                    if (end_j - j >= 32) {
                        {
                            f32x16 sum_j0_0 = load_f32x16(C_ + i1 * ldC + j);
                            f32x16 sum_j0_16 = load_f32x16(C_ + i1 * ldC + j + 16);
                            int64_t p_k1 = k1_pos[p_i1];
                            const int64_t end_k1 = k1_pos[p_i1 + 1];
                            for (; p_k1 < end_k1; p_k1++) {
                                const int64_t k1 = k1_crd[p_k1];
                                const f32x16 b_j0_0 = load_f32x16(B_ + k1 * ldB + j);
                                sum_j0_0 += vals[p_k1] * b_j0_0;
                                const f32x16 b_j0_16 = load_f32x16(B_ + k1 * ldB + j + 16);
                                sum_j0_16 += vals[p_k1] * b_j0_16;
                                if (k1 != i1) {
                                    store_f32x16(C_ + k1 * ldC + j, load_f32x16(C_ + k1 * ldC + j) + vals[p_k1] * load_f32x16(B_ + i1 * ldB + j));
                                    store_f32x16(C_ + k1 * ldC + j + 16, load_f32x16(C_ + k1 * ldC + j + 16) + vals[p_k1] * load_f32x16(B_ + i1 * ldB + j + 16));
                                }
                            }
                            store_f32x16(C_ + i1 * ldC + j, sum_j0_0);
                            store_f32x16(C_ + i1 * ldC + j + 16, sum_j0_16);
                        }
                        j += 32;
                    }
                    else if (end_j - j > 16) {
                        {
                            const head_f32x16 head_16 = make_head_f32x16(end_j - j - 16);
                            f32x16 sum_j0_0 = load_f32x16(C_ + i1 * ldC + j);
                            f32x16 sum_j0_16 = load_head_f32x16(C_ + i1 * ldC + j + 16, head_16);
                            int64_t p_k1 = k1_pos[p_i1];
                            const int64_t end_k1 = k1_pos[p_i1 + 1];
                            for (; p_k1 < end_k1; p_k1++) {
                                const int64_t k1 = k1_crd[p_k1];
                                const f32x16 b_j0_0 = load_f32x16(B_ + k1 * ldB + j);
                                sum_j0_0 += vals[p_k1] * b_j0_0;
                                const f32x16 b_j0_16 = load_head_f32x16(B_ + k1 * ldB + j + 16, head_16);
                                sum_j0_16 += vals[p_k1] * b_j0_16;
                                if (k1 != i1) {
                                    store_f32x16(C_ + k1 * ldC + j, load_f32x16(C_ + k1 * ldC + j) + vals[p_k1] * load_f32x16(B_ + i1 * ldB + j));
                                    store_head_f32x16(C_ + k1 * ldC + j + 16, load_head_f32x16(C_ + k1 * ldC + j + 16, head_16) + vals[p_k1] * load_head_f32x16(B_ + i1 * ldB + j + 16, head_16), head_16);
                                }
                            }
                            store_f32x16(C_ + i1 * ldC + j, sum_j0_0);
                            store_head_f32x16(C_ + i1 * ldC + j + 16, sum_j0_16, head_16);
                        }
                        j = end_j;
                    }
                    else {
                        {
                            const head_f32x16 head_0 = make_head_f32x16(end_j - j);
                            f32x16 sum_j0_0 = load_head_f32x16(C_ + i1 * ldC + j, head_0);
                            int64_t p_k1 = k1_pos[p_i1];
                            const int64_t end_k1 = k1_pos[p_i1 + 1];
                            for (; p_k1 < end_k1; p_k1++) {
                                const int64_t k1 = k1_crd[p_k1];
                                const f32x16 b_j0_0 = load_head_f32x16(B_ + k1 * ldB + j, head_0);
                                sum_j0_0 += vals[p_k1] * b_j0_0;
                                if (k1 != i1) {
                                    store_head_f32x16(C_ + k1 * ldC + j, load_head_f32x16(C_ + k1 * ldC + j, head_0) + vals[p_k1] * load_head_f32x16(B_ + i1 * ldB + j, head_0), head_0);
                                }
                            }
                            store_head_f32x16(C_ + i1 * ldC + j, sum_j0_0, head_0);
                        }
                        j = end_j;
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
            float *restrict to = (float *)call->C + row * call->ldC;
            const float *restrict from = (float *)x->own + (part - 1) * x->step + row * n_columns;
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
    float *restrict C_ = (float *)call->C;
    const int64_t n_i1 = n_i;
    if (n_i == 0 || n_k == 0) {
        for (int64_t at = 0; at < n_i; at++) for (int64_t to = 0; to < n_j; to++) C_[at * ldC + to] = 0;
        return 0;
    }
    for (int64_t at = 0; at < n_i; at++) for (int64_t to = 0; to < n_j; to++) C_[at * ldC + to] = 0;
    {
        task_context x = {.call = call, .n = n_i1, .weights = k1_pos};
        x.step = (n_i * n_j + 31) / 32 * 32;
        const int64_t most = 1 + 268435456 / (x.step * (int64_t)sizeof(float) + 1);
        const int64_t wanted = asp_min(asp_min(n_threads, most), x.n);
        const size_t own_bytes = wanted > 1 ? (size_t)((wanted - 1) * x.step) * sizeof(float) : 0;
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
