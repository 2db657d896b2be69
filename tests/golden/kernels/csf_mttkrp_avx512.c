/* autosparse kernel
 * i1:U,k1:C,l1:C; loops i1 j1 k1 l1 j0, parallel i1
 * float32, indices int32, avx512; unroll 1, prefetch 8
 *
 * M[i,j] += T[i,k,l] * B[k,j] * C[l,j]    # T: i1:U,k1:C,l1:C
 * parallel for i1 in 0..n_i:
 *   p_i1 = 0 * n_i + i1
 *   for j in tiles of 16 of 0..n_j:
 *     accumulate M[i,j] (zero):
 *       for p_k1 in k1_pos[p_i1]..: k1 = k1_crd[p_k1]
 *         accumulate part 1 of M[i,j] (zero, times B[k,j]):
 *           for p_l1 in l1_pos[p_k1]..: l1 = l1_crd[p_l1]  # prefetch 8 ahead
 *             block [j0] lanes j0: M[i,j] += T[i,k,l] * C[l,j]
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
    const int64_t ldB = call->ldB;
    const int64_t ldC = call->ldC;
    const int64_t ldM = call->ldM;
    const int64_t n_j = call->n_j;
    const int32_t *restrict k1_pos = A->pos[1];
    const int32_t *restrict k1_crd = A->crd[1];
    const int32_t *restrict l1_pos = A->pos[2];
    const int32_t *restrict l1_crd = A->crd[2];
    const int64_t last_l1 = A->n_positions[2] - 1;
    const float *restrict vals = A->vals;
    const float *restrict B_ = (const float *)call->B;
    const float *restrict C_ = (const float *)call->C;
    float *restrict M_ = (float *)call->M;
    for (int64_t i1 = begin; i1 < end; i1++) {
        const int64_t p_i1 = i1;
        const int64_t end_j = n_j;
        for (int64_t j = 0; j < end_j;) {
            if (end_j - j >= 16) {
                {
                    f32x16 sum_j0_0 = (f32x16){0};
                    int64_t p_k1 = k1_pos[p_i1];
                    const int64_t end_k1 = k1_pos[p_i1 + 1];
                    for (; p_k1 < end_k1; p_k1++) {
                        const int64_t k1 = k1_crd[p_k1];
                        {
                            f32x16 part1x_j0_0 = (f32x16){0};
                            int64_t p_l1 = l1_pos[p_k1];
                            const int64_t end_l1 = l1_pos[p_k1 + 1];
                            for (; p_l1 < end_l1; p_l1++) {
                                const int64_t l1 = l1_crd[p_l1];
                                const int64_t ahead_l1 = l1_crd[asp_min(p_l1 + 8, last_l1)];
                                __builtin_prefetch(C_ + ahead_l1 * ldC + j);
                                const f32x16 c_j0_0 = load_f32x16(C_ + l1 * ldC + j);
                                part1x_j0_0 += vals[p_l1] * c_j0_0;
                            }
                            const f32x16 b_j0_0 = load_f32x16(B_ + k1 * ldB + j);
                            sum_j0_0 += part1x_j0_0 * b_j0_0;
                        }
                    }
                    store_f32x16(M_ + i1 * ldM + j, sum_j0_0);
                }
                j += 16;
            }
            else {
                {
                    const head_f32x16 head_0 = make_head_f32x16(end_j - j);
                    f32x16 sum_j0_0 = (f32x16){0};
                    int64_t p_k1 = k1_pos[p_i1];
                    const int64_t end_k1 = k1_pos[p_i1 + 1];
                    for (; p_k1 < end_k1; p_k1++) {
                        const int64_t k1 = k1_crd[p_k1];
                        {
                            const head_f32x16 head_0 = make_head_f32x16(end_j - j);
                            f32x16 part1x_j0_0 = (f32x16){0};
                            int64_t p_l1 = l1_pos[p_k1];
                            const int64_t end_l1 = l1_pos[p_k1 + 1];
                            for (; p_l1 < end_l1; p_l1++) {
                                const int64_t l1 = l1_crd[p_l1];
                                const int64_t ahead_l1 = l1_crd[asp_min(p_l1 + 8, last_l1)];
                                __builtin_prefetch(C_ + ahead_l1 * ldC + j);
                                const f32x16 c_j0_0 = load_head_f32x16(C_ + l1 * ldC + j, head_0);
                                part1x_j0_0 += vals[p_l1] * c_j0_0;
                            }
                            const f32x16 b_j0_0 = load_head_f32x16(B_ + k1 * ldB + j, head_0);
                            sum_j0_0 += part1x_j0_0 * b_j0_0;
                        }
                    }
                    store_head_f32x16(M_ + i1 * ldM + j, sum_j0_0, head_0);
                }
                j = end_j;
            }
        }
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
    const int32_t *restrict k1_pos = A->pos[1];
    float *restrict M_ = (float *)call->M;
    const int64_t n_i1 = n_i;
    if (n_i == 0 || n_k == 0 || n_l == 0) {
        for (int64_t at = 0; at < n_i; at++) for (int64_t to = 0; to < n_j; to++) M_[at * ldM + to] = 0;
        return 0;
    }
    {
        task_context x = {.call = call, .n = n_i1, .weights = k1_pos};
        x.n_parts = chunk > 0 ? (x.n + chunk - 1) / chunk : n_threads > 1 ? 16 * n_threads : 1;
        if (!A->parallel || n_threads <= 1)
            task(&x, 0, x.n_parts);
        else {
            const double serial_ns = (double)A->n_positions[2] * (0.6 + 0.04 * (double)n_j);
            A->parallel(task, &x, x.n_parts, 1, 1 + x.n_parts / (4 * n_threads), (int)n_threads, serial_ns);
        }
        bad |= x.bad;
    }
    return bad;
}
