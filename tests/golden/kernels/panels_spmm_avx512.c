/* autosparse kernel
 * k1:U,i1:U,k0:C | k=16384 | bits=16; loops k1 i1 j1 k0 j0, parallel i1
 * float32, indices int32, avx512; unroll 1, prefetch 0
 *
 * C[i,j] += A[i,k] * B[k,j]    # A: k1:U,i1:U,k0:C
 * for k1 in 0..ceil(n_k / 16384):
 *   p_k1 = 0 * ceil(n_k / 16384) + k1
 *   parallel for i1 in 0..n_i:
 *     p_i1 = p_k1 * n_i + i1
 *     for j in tiles of 32 of 0..n_j:
 *       accumulate C[i,j] (load unless first ('k1',)):
 *         for p_k0 in k0_pos[p_i1]..: k0 = k0_crd[p_k0]
 *           block [j0] lanes j0: C[i,j] += A[i,k] * B[k,j]
 */
typedef struct {
    const asp_call *call;
    int64_t n, n_parts;
    const int32_t *weights;
    int64_t k1;
    int64_t p_k1;
    int bad;
} task_context;

static void task(void *context, int64_t part, int64_t end_part)
{
    task_context *x = context;
    const asp_call *call = x->call;
    const int64_t begin = asp_boundary(x->weights, x->n, call->chunk, part, x->n_parts);
    const int64_t end = asp_boundary(x->weights, x->n, call->chunk, end_part, x->n_parts);
    const int64_t k1 = x->k1;
    const int64_t p_k1 = x->p_k1;
    const asp_operand *A = call->A;
    const int64_t n_i = A->size[0];
    const int64_t ldB = call->ldB;
    const int64_t ldC = call->ldC;
    const int64_t n_j = call->n_j;
    const int32_t *restrict k0_pos = A->pos[2];
    const uint16_t *restrict k0_crd = A->crd[2];
    const float *restrict vals = A->vals;
    const float *restrict B_ = (const float *)call->B;
    float *restrict C_ = (float *)call->C;
    const int64_t n_i1 = n_i;
    for (int64_t i1 = begin; i1 < end; i1++) {
        const int64_t p_i1 = p_k1 * n_i1 + i1;
        const int64_t end_j = n_j;
        for (int64_t j = 0; j < end_j;) {
            if (end_j - j >= 32) {
                {
                    f32x16 sum_j0_0 = k1 == 0 ? (f32x16){0} : load_f32x16(C_ + i1 * ldC + j);
                    f32x16 sum_j0_16 = k1 == 0 ? (f32x16){0} : load_f32x16(C_ + i1 * ldC + j + 16);
                    int64_t p_k0 = k0_pos[p_i1];
                    const int64_t end_k0 = k0_pos[p_i1 + 1];
                    for (; p_k0 < end_k0; p_k0++) {
                        const int64_t k0 = k0_crd[p_k0];
                        const f32x16 b_j0_0 = load_f32x16(B_ + (k1 * 16384 + k0) * ldB + j);
                        sum_j0_0 += vals[p_k0] * b_j0_0;
                        const f32x16 b_j0_16 = load_f32x16(B_ + (k1 * 16384 + k0) * ldB + j + 16);
                        sum_j0_16 += vals[p_k0] * b_j0_16;
                    }
                    store_f32x16(C_ + i1 * ldC + j, sum_j0_0);
                    store_f32x16(C_ + i1 * ldC + j + 16, sum_j0_16);
                }
                j += 32;
            }
            else if (end_j - j > 16) {
                {
                    const head_f32x16 head_16 = make_head_f32x16(end_j - j - 16);
                    f32x16 sum_j0_0 = k1 == 0 ? (f32x16){0} : load_f32x16(C_ + i1 * ldC + j);
                    f32x16 sum_j0_16 = k1 == 0 ? (f32x16){0} : load_head_f32x16(C_ + i1 * ldC + j + 16, head_16);
                    int64_t p_k0 = k0_pos[p_i1];
                    const int64_t end_k0 = k0_pos[p_i1 + 1];
                    for (; p_k0 < end_k0; p_k0++) {
                        const int64_t k0 = k0_crd[p_k0];
                        const f32x16 b_j0_0 = load_f32x16(B_ + (k1 * 16384 + k0) * ldB + j);
                        sum_j0_0 += vals[p_k0] * b_j0_0;
                        const f32x16 b_j0_16 = load_head_f32x16(B_ + (k1 * 16384 + k0) * ldB + j + 16, head_16);
                        sum_j0_16 += vals[p_k0] * b_j0_16;
                    }
                    store_f32x16(C_ + i1 * ldC + j, sum_j0_0);
                    store_head_f32x16(C_ + i1 * ldC + j + 16, sum_j0_16, head_16);
                }
                j = end_j;
            }
            else {
                {
                    const head_f32x16 head_0 = make_head_f32x16(end_j - j);
                    f32x16 sum_j0_0 = k1 == 0 ? (f32x16){0} : load_head_f32x16(C_ + i1 * ldC + j, head_0);
                    int64_t p_k0 = k0_pos[p_i1];
                    const int64_t end_k0 = k0_pos[p_i1 + 1];
                    for (; p_k0 < end_k0; p_k0++) {
                        const int64_t k0 = k0_crd[p_k0];
                        const f32x16 b_j0_0 = load_head_f32x16(B_ + (k1 * 16384 + k0) * ldB + j, head_0);
                        sum_j0_0 += vals[p_k0] * b_j0_0;
                    }
                    store_head_f32x16(C_ + i1 * ldC + j, sum_j0_0, head_0);
                }
                j = end_j;
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
    const int32_t *restrict k0_pos = A->pos[2];
    float *restrict C_ = (float *)call->C;
    const int64_t n_i1 = n_i;
    const int64_t n_k1 = (n_k + 16383) / 16384;
    if (n_i == 0 || n_k == 0) {
        for (int64_t at = 0; at < n_i; at++) for (int64_t to = 0; to < n_j; to++) C_[at * ldC + to] = 0;
        return 0;
    }
    for (int64_t k1 = 0, end_k1 = n_k1; k1 < end_k1; k1++) {
        const int64_t p_k1 = k1;
        {
            task_context x = {.call = call, .n = n_i1, .weights = k0_pos + p_k1 * n_i1};
            x.k1 = k1;
            x.p_k1 = p_k1;
            x.n_parts = chunk > 0 ? (x.n + chunk - 1) / chunk : n_threads > 1 ? 16 * n_threads : 1;
            if (!A->parallel || n_threads <= 1)
                task(&x, 0, x.n_parts);
            else {
                const double serial_ns = (double)A->n_positions[2] * (0.6 + 0.04 * (double)n_j) / (double)(n_k1);
                A->parallel(task, &x, x.n_parts, 1, 1 + x.n_parts / (4 * n_threads), (int)n_threads, serial_ns);
            }
            bad |= x.bad;
        }
    }
    return bad;
}
