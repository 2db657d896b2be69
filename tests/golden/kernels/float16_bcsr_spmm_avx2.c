/* autosparse kernel
 * i1:U,k1:C,i0:U,k0:U | i=2,k=2 | values=float16; loops i1 j1 k1 i0 k0 j0, parallel i1
 * float32, indices int32, avx2; unroll 1, prefetch 0
 *
 * C[i,j] += A[i,k] * B[k,j]    # A: i1:U,k1:C,i0:U,k0:U
 * parallel for i1 in 0..ceil(n_i / 2):
 *   p_i1 = 0 * ceil(n_i / 2) + i1
 *   for j in tiles of 16 of 0..n_j:
 *     accumulate C[i,j] (zero, check finite):
 *       for p_k1 in k1_pos[p_i1]..: k1 = k1_crd[p_k1]
 *         block [i0,k0,j0] lanes j0: C[i,j] += A[i,k] * B[k,j]
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
    f32x8 check_8 = {0};
    const asp_operand *A = call->A;
    const int64_t n_i = A->size[0];
    const int64_t n_k = A->size[1];
    const int64_t ldB = call->ldB;
    const int64_t ldC = call->ldC;
    const int64_t n_j = call->n_j;
    const int32_t *restrict k1_pos = A->pos[1];
    const int32_t *restrict k1_crd = A->crd[1];
    const uint16_t *restrict vals = A->vals;
    const float *restrict B_ = (const float *)call->B;
    float *restrict C_ = (float *)call->C;
    for (int64_t i1 = begin; i1 < end; i1++) {
        const int64_t p_i1 = i1;
        const int64_t end_j = n_j;
        for (int64_t j = 0; j < end_j;) {
            if (end_j - j >= 16) {
                {
                    f32x8 sum_i0_0_j0_0 = (f32x8){0};
                    f32x8 sum_i0_0_j0_8 = (f32x8){0};
                    f32x8 sum_i0_1_j0_0 = (f32x8){0};
                    f32x8 sum_i0_1_j0_8 = (f32x8){0};
                    int64_t p_k1 = k1_pos[p_i1];
                    const int64_t end_k1 = k1_pos[p_i1 + 1];
                    for (; p_k1 < end_k1; p_k1++) {
                        const int64_t k1 = k1_crd[p_k1];
                        const f32x8 b_k0_0_j0_0 = load_f32x8(B_ + (k1 * 2) * ldB + j);
                        sum_i0_0_j0_0 += widen_f32x1(vals[p_k1 * 4]) * b_k0_0_j0_0;
                        const f32x8 b_k0_0_j0_8 = load_f32x8(B_ + (k1 * 2) * ldB + j + 8);
                        sum_i0_0_j0_8 += widen_f32x1(vals[p_k1 * 4]) * b_k0_0_j0_8;
                        sum_i0_1_j0_0 += widen_f32x1(vals[p_k1 * 4 + 2]) * b_k0_0_j0_0;
                        sum_i0_1_j0_8 += widen_f32x1(vals[p_k1 * 4 + 2]) * b_k0_0_j0_8;
                        const f32x8 b_k0_1_j0_0 = load_f32x8(B_ + asp_min(k1 * 2 + 1, n_k - 1) * ldB + j);
                        sum_i0_0_j0_0 += widen_f32x1(vals[p_k1 * 4 + 1]) * b_k0_1_j0_0;
                        const f32x8 b_k0_1_j0_8 = load_f32x8(B_ + asp_min(k1 * 2 + 1, n_k - 1) * ldB + j + 8);
                        sum_i0_0_j0_8 += widen_f32x1(vals[p_k1 * 4 + 1]) * b_k0_1_j0_8;
                        sum_i0_1_j0_0 += widen_f32x1(vals[p_k1 * 4 + 3]) * b_k0_1_j0_0;
                        sum_i0_1_j0_8 += widen_f32x1(vals[p_k1 * 4 + 3]) * b_k0_1_j0_8;
                    }
                    check_8 += sum_i0_0_j0_0 * 0;
                    store_f32x8(C_ + (i1 * 2) * ldC + j, sum_i0_0_j0_0);
                    check_8 += sum_i0_0_j0_8 * 0;
                    store_f32x8(C_ + (i1 * 2) * ldC + j + 8, sum_i0_0_j0_8);
                    if (i1 * 2 + 1 < n_i) {
                        check_8 += sum_i0_1_j0_0 * 0;
                        store_f32x8(C_ + (i1 * 2 + 1) * ldC + j, sum_i0_1_j0_0);
                    }
                    if (i1 * 2 + 1 < n_i) {
                        check_8 += sum_i0_1_j0_8 * 0;
                        store_f32x8(C_ + (i1 * 2 + 1) * ldC + j + 8, sum_i0_1_j0_8);
                    }
                }
                j += 16;
            }
            else if (end_j - j > 8) {
                {
                    const head_f32x8 head_8 = make_head_f32x8(end_j - j - 8);
                    f32x8 sum_i0_0_j0_0 = (f32x8){0};
                    f32x8 sum_i0_0_j0_8 = (f32x8){0};
                    f32x8 sum_i0_1_j0_0 = (f32x8){0};
                    f32x8 sum_i0_1_j0_8 = (f32x8){0};
                    int64_t p_k1 = k1_pos[p_i1];
                    const int64_t end_k1 = k1_pos[p_i1 + 1];
                    for (; p_k1 < end_k1; p_k1++) {
                        const int64_t k1 = k1_crd[p_k1];
                        const f32x8 b_k0_0_j0_0 = load_f32x8(B_ + (k1 * 2) * ldB + j);
                        sum_i0_0_j0_0 += widen_f32x1(vals[p_k1 * 4]) * b_k0_0_j0_0;
                        const f32x8 b_k0_0_j0_8 = load_head_f32x8(B_ + (k1 * 2) * ldB + j + 8, head_8);
                        sum_i0_0_j0_8 += widen_f32x1(vals[p_k1 * 4]) * b_k0_0_j0_8;
                        sum_i0_1_j0_0 += widen_f32x1(vals[p_k1 * 4 + 2]) * b_k0_0_j0_0;
                        sum_i0_1_j0_8 += widen_f32x1(vals[p_k1 * 4 + 2]) * b_k0_0_j0_8;
                        const f32x8 b_k0_1_j0_0 = load_f32x8(B_ + asp_min(k1 * 2 + 1, n_k - 1) * ldB + j);
                        sum_i0_0_j0_0 += widen_f32x1(vals[p_k1 * 4 + 1]) * b_k0_1_j0_0;
                        const f32x8 b_k0_1_j0_8 = load_head_f32x8(B_ + asp_min(k1 * 2 + 1, n_k - 1) * ldB + j + 8, head_8);
                        sum_i0_0_j0_8 += widen_f32x1(vals[p_k1 * 4 + 1]) * b_k0_1_j0_8;
                        sum_i0_1_j0_0 += widen_f32x1(vals[p_k1 * 4 + 3]) * b_k0_1_j0_0;
                        sum_i0_1_j0_8 += widen_f32x1(vals[p_k1 * 4 + 3]) * b_k0_1_j0_8;
                    }
                    check_8 += sum_i0_0_j0_0 * 0;
                    store_f32x8(C_ + (i1 * 2) * ldC + j, sum_i0_0_j0_0);
                    check_8 += sum_i0_0_j0_8 * 0;
                    store_head_f32x8(C_ + (i1 * 2) * ldC + j + 8, sum_i0_0_j0_8, head_8);
                    if (i1 * 2 + 1 < n_i) {
                        check_8 += sum_i0_1_j0_0 * 0;
                        store_f32x8(C_ + (i1 * 2 + 1) * ldC + j, sum_i0_1_j0_0);
                    }
                    if (i1 * 2 + 1 < n_i) {
                        check_8 += sum_i0_1_j0_8 * 0;
                        store_head_f32x8(C_ + (i1 * 2 + 1) * ldC + j + 8, sum_i0_1_j0_8, head_8);
                    }
                }
                j = end_j;
            }
            else {
                {
                    const head_f32x8 head_0 = make_head_f32x8(end_j - j);
                    f32x8 sum_i0_0_j0_0 = (f32x8){0};
                    f32x8 sum_i0_1_j0_0 = (f32x8){0};
                    int64_t p_k1 = k1_pos[p_i1];
                    const int64_t end_k1 = k1_pos[p_i1 + 1];
                    for (; p_k1 < end_k1; p_k1++) {
                        const int64_t k1 = k1_crd[p_k1];
                        const f32x8 b_k0_0_j0_0 = load_head_f32x8(B_ + (k1 * 2) * ldB + j, head_0);
                        sum_i0_0_j0_0 += widen_f32x1(vals[p_k1 * 4]) * b_k0_0_j0_0;
                        sum_i0_1_j0_0 += widen_f32x1(vals[p_k1 * 4 + 2]) * b_k0_0_j0_0;
                        const f32x8 b_k0_1_j0_0 = load_head_f32x8(B_ + asp_min(k1 * 2 + 1, n_k - 1) * ldB + j, head_0);
                        sum_i0_0_j0_0 += widen_f32x1(vals[p_k1 * 4 + 1]) * b_k0_1_j0_0;
                        sum_i0_1_j0_0 += widen_f32x1(vals[p_k1 * 4 + 3]) * b_k0_1_j0_0;
                    }
                    check_8 += sum_i0_0_j0_0 * 0;
                    store_head_f32x8(C_ + (i1 * 2) * ldC + j, sum_i0_0_j0_0, head_0);
                    if (i1 * 2 + 1 < n_i) {
                        check_8 += sum_i0_1_j0_0 * 0;
                        store_head_f32x8(C_ + (i1 * 2 + 1) * ldC + j, sum_i0_1_j0_0, head_0);
                    }
                }
                j = end_j;
            }
        }
    }
    if (sum_f32x8(check_8) != 0) /* nan: a result was not finite */
        x->bad = 1;
}

int asp_kernel(const asp_operand *A, uintptr_t B, int64_t ldB, uintptr_t C, int64_t ldC, int64_t n_j, int64_t n_threads, int64_t chunk)
{
    const asp_call arguments = {A, B, C, ldB, ldC, n_j, n_threads, chunk}, *call = &arguments;
    int bad = 0;
    const int64_t n_i = A->size[0];
    const int64_t n_k = A->size[1];
    const int32_t *restrict k1_pos = A->pos[1];
    float *restrict C_ = (float *)call->C;
    const int64_t n_i1 = (n_i + 1) / 2;
    if (n_i == 0 || n_k == 0) {
        for (int64_t at = 0; at < n_i; at++) for (int64_t to = 0; to < n_j; to++) C_[at * ldC + to] = 0;
        return 0;
    }
    {
        task_context x = {.call = call, .n = n_i1, .weights = k1_pos};
        x.n_parts = chunk > 0 ? (x.n + chunk - 1) / chunk : n_threads > 1 ? 16 * n_threads : 1;
        if (!A->parallel || n_threads <= 1)
            task(&x, 0, x.n_parts);
        else {
            const double serial_ns = (double)A->n_positions[3] * (0.6 + 0.04 * (double)n_j);
            A->parallel(task, &x, x.n_parts, 1, 1 + x.n_parts / (4 * n_threads), (int)n_threads, serial_ns);
        }
        bad |= x.bad;
    }
    return bad;
}
