/* autosparse kernel
 * i1:U,k1:C; loops i1 k1 j1 j0, parallel i1
 * float32, indices int32, avx512; unroll 1, prefetch 0
 *
 * O[i,k] += A[i,k] * X[i,j] * Y[k,j]    # A: i1:U,k1:C
 * parallel for i1 in 0..n_i:
 *   p_i1 = 0 * n_i + i1
 *   for p_k1 in k1_pos[p_i1]..: k1 = k1_crd[p_k1]
 *     accumulate O[i,k] x 2 ways (zero, times A[i,k]):
 *       for j in tiles of 32 of 0..n_j:
 *         block [j0] lanes j0: O[i,k] += X[i,j] * Y[k,j]
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
    const int64_t ldX = call->ldX;
    const int64_t ldY = call->ldY;
    const int64_t n_j = call->n_j;
    const int32_t *restrict k1_pos = A->pos[1];
    const int32_t *restrict k1_crd = A->crd[1];
    const float *restrict vals = (const float *)call->vals;
    const float *restrict X_ = (const float *)call->X;
    const float *restrict Y_ = (const float *)call->Y;
    float *restrict O_ = (float *)call->O;
    for (int64_t i1 = begin; i1 < end; i1++) {
        const int64_t p_i1 = i1;
        int64_t p_k1 = k1_pos[p_i1];
        const int64_t end_k1 = k1_pos[p_i1 + 1];
        for (; p_k1 < end_k1; p_k1++) {
            const int64_t k1 = k1_crd[p_k1];
            {
                f32x16 sum = (f32x16){0};
                f32x16 sum1 = (f32x16){0};
                const int64_t end_j = n_j;
                for (int64_t j = 0; j < end_j;) {
                    if (end_j - j >= 32) {
                        const f32x16 x_j0_0 = load_f32x16(X_ + i1 * ldX + j);
                        const f32x16 y_j0_0 = load_f32x16(Y_ + k1 * ldY + j);
                        sum += x_j0_0 * y_j0_0;
                        const f32x16 x_j0_16 = load_f32x16(X_ + i1 * ldX + j + 16);
                        const f32x16 y_j0_16 = load_f32x16(Y_ + k1 * ldY + j + 16);
                        sum1 += x_j0_16 * y_j0_16;
                        j += 32;
                    }
                    else if (end_j - j >= 16) {
                        const f32x16 x_j0_0 = load_f32x16(X_ + i1 * ldX + j);
                        const f32x16 y_j0_0 = load_f32x16(Y_ + k1 * ldY + j);
                        sum += x_j0_0 * y_j0_0;
                        j += 16;
                    }
                    else {
                        const head_f32x16 head_0 = make_head_f32x16(end_j - j);
                        const f32x16 x_j0_0 = load_head_f32x16(X_ + i1 * ldX + j, head_0);
                        const f32x16 y_j0_0 = load_head_f32x16(Y_ + k1 * ldY + j, head_0);
                        sum += x_j0_0 * y_j0_0;
                        j = end_j;
                    }
                }
                sum += sum1;
                {
                    const f32x1 dots = sum_f32x16(sum);
                    {
                        const int64_t e = p_k1;
                        O_[e] = vals[e] * dots;
                    }
                }
            }
        }
    }
}

int asp_kernel(const asp_operand *A, const uintptr_t *at, const int64_t *ld, int64_t n_j, int64_t n_threads, int64_t chunk)
{
    const asp_call arguments = {A, at[0], at[1], at[2], at[3], ld[0], ld[1], ld[2], n_j, n_threads, chunk}, *call = &arguments;
    int bad = 0;
    const int64_t n_i = A->size[0];
    const int64_t n_k = A->size[1];
    const int32_t *restrict k1_pos = A->pos[1];
    const int64_t last_k1 = A->n_positions[1] - 1;
    const float *restrict vals = (const float *)call->vals;
    float *restrict O_ = (float *)call->O;
    const int64_t n_i1 = n_i;
    if (n_i == 0 || n_k == 0) {
        return 0;
    }
    if (n_j == 0) {
        for (int64_t p = 0; p <= last_k1; p++) {
            {
                const int64_t e = p;
                O_[e] = vals[e] * (float)0;
            }
        }
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
