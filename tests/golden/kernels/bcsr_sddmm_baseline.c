/* autosparse kernel
 * i1:U,k1:C,i0:U,k0:U | i=2,k=2; loops i1 k1 j1 i0 k0 j0, parallel i1
 * float64, indices int32, baseline; unroll 1, prefetch 0
 *
 * O[i,k] += A[i,k] * X[i,j] * Y[k,j]    # A: i1:U,k1:C,i0:U,k0:U
 * parallel for i1 in 0..ceil(n_i / 2):
 *   p_i1 = 0 * ceil(n_i / 2) + i1
 *   for p_k1 in k1_pos[p_i1]..: k1 = k1_crd[p_k1]
 *     accumulate O[i,k] (zero, times A[i,k]):
 *       for j in tiles of 4 of 0..n_j:
 *         block [i0,k0,j0] lanes j0: O[i,k] += X[i,j] * Y[k,j]
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
    const int64_t n_i = A->size[0];
    const int64_t n_k = A->size[1];
    const int64_t ldX = call->ldX;
    const int64_t ldY = call->ldY;
    const int64_t n_j = call->n_j;
    const int32_t *restrict k1_pos = A->pos[1];
    const int32_t *restrict k1_crd = A->crd[1];
    const double *restrict vals = (const double *)call->vals;
    const int32_t *restrict origin = A->origin;
    const int32_t *restrict repeats = A->repeats;
    const double *restrict X_ = (const double *)call->X;
    const double *restrict Y_ = (const double *)call->Y;
    double *restrict O_ = (double *)call->O;
    for (int64_t i1 = begin; i1 < end; i1++) {
        const int64_t p_i1 = i1;
        int64_t p_k1 = k1_pos[p_i1];
        const int64_t end_k1 = k1_pos[p_i1 + 1];
        for (; p_k1 < end_k1; p_k1++) {
            const int64_t k1 = k1_crd[p_k1];
            {
                f64x2 sum_i0_0_k0_0 = (f64x2){0};
                f64x2 sum_i0_0_k0_1 = (f64x2){0};
                f64x2 sum_i0_1_k0_0 = (f64x2){0};
                f64x2 sum_i0_1_k0_1 = (f64x2){0};
                f64x1 rest_i0_0_k0_0 = (f64x1){0};
                f64x1 rest_i0_0_k0_1 = (f64x1){0};
                f64x1 rest_i0_1_k0_0 = (f64x1){0};
                f64x1 rest_i0_1_k0_1 = (f64x1){0};
                const int64_t end_j = n_j;
                for (int64_t j = 0; j < end_j;) {
                    if (end_j - j >= 4) {
                        const f64x2 x_j0_0_i0_0 = load_f64x2(X_ + (i1 * 2) * ldX + j);
                        const f64x2 y_j0_0_k0_0 = load_f64x2(Y_ + (k1 * 2) * ldY + j);
                        sum_i0_0_k0_0 += x_j0_0_i0_0 * y_j0_0_k0_0;
                        const f64x2 y_j0_0_k0_1 = load_f64x2(Y_ + asp_min(k1 * 2 + 1, n_k - 1) * ldY + j);
                        sum_i0_0_k0_1 += x_j0_0_i0_0 * y_j0_0_k0_1;
                        const f64x2 x_j0_0_i0_1 = load_f64x2(X_ + asp_min(i1 * 2 + 1, n_i - 1) * ldX + j);
                        sum_i0_1_k0_0 += x_j0_0_i0_1 * y_j0_0_k0_0;
                        sum_i0_1_k0_1 += x_j0_0_i0_1 * y_j0_0_k0_1;
                        const f64x2 x_j0_2_i0_0 = load_f64x2(X_ + (i1 * 2) * ldX + j + 2);
                        const f64x2 y_j0_2_k0_0 = load_f64x2(Y_ + (k1 * 2) * ldY + j + 2);
                        sum_i0_0_k0_0 += x_j0_2_i0_0 * y_j0_2_k0_0;
                        const f64x2 y_j0_2_k0_1 = load_f64x2(Y_ + asp_min(k1 * 2 + 1, n_k - 1) * ldY + j + 2);
                        sum_i0_0_k0_1 += x_j0_2_i0_0 * y_j0_2_k0_1;
                        const f64x2 x_j0_2_i0_1 = load_f64x2(X_ + asp_min(i1 * 2 + 1, n_i - 1) * ldX + j + 2);
                        sum_i0_1_k0_0 += x_j0_2_i0_1 * y_j0_2_k0_0;
                        sum_i0_1_k0_1 += x_j0_2_i0_1 * y_j0_2_k0_1;
                        j += 4;
                    }
                    else if (end_j - j >= 2) {
                        const f64x2 x_j0_0_i0_0 = load_f64x2(X_ + (i1 * 2) * ldX + j);
                        const f64x2 y_j0_0_k0_0 = load_f64x2(Y_ + (k1 * 2) * ldY + j);
                        sum_i0_0_k0_0 += x_j0_0_i0_0 * y_j0_0_k0_0;
                        const f64x2 y_j0_0_k0_1 = load_f64x2(Y_ + asp_min(k1 * 2 + 1, n_k - 1) * ldY + j);
                        sum_i0_0_k0_1 += x_j0_0_i0_0 * y_j0_0_k0_1;
                        const f64x2 x_j0_0_i0_1 = load_f64x2(X_ + asp_min(i1 * 2 + 1, n_i - 1) * ldX + j);
                        sum_i0_1_k0_0 += x_j0_0_i0_1 * y_j0_0_k0_0;
                        sum_i0_1_k0_1 += x_j0_0_i0_1 * y_j0_0_k0_1;
                        j += 2;
                    }
                    else {
                        const f64x1 x_j0_0_i0_0 = load_f64x1(X_ + (i1 * 2) * ldX + j);
                        const f64x1 y_j0_0_k0_0 = load_f64x1(Y_ + (k1 * 2) * ldY + j);
                        rest_i0_0_k0_0 += x_j0_0_i0_0 * y_j0_0_k0_0;
                        const f64x1 y_j0_0_k0_1 = load_f64x1(Y_ + asp_min(k1 * 2 + 1, n_k - 1) * ldY + j);
                        rest_i0_0_k0_1 += x_j0_0_i0_0 * y_j0_0_k0_1;
                        const f64x1 x_j0_0_i0_1 = load_f64x1(X_ + asp_min(i1 * 2 + 1, n_i - 1) * ldX + j);
                        rest_i0_1_k0_0 += x_j0_0_i0_1 * y_j0_0_k0_0;
                        rest_i0_1_k0_1 += x_j0_0_i0_1 * y_j0_0_k0_1;
                        j += 1;
                    }
                }
                {
                    const f64x2 dots = fold_2_f64x2(sum_i0_0_k0_0, sum_i0_0_k0_1) + (f64x2){rest_i0_0_k0_0, rest_i0_0_k0_1};
                    for (int64_t e = origin[p_k1 * 4]; e >= 0; e = repeats ? repeats[e] : -1) {
                        O_[e] = vals[e] * dots[0];
                    }
                    for (int64_t e = origin[p_k1 * 4 + 1]; e >= 0; e = repeats ? repeats[e] : -1) {
                        O_[e] = vals[e] * dots[1];
                    }
                }
                {
                    const f64x2 dots = fold_2_f64x2(sum_i0_1_k0_0, sum_i0_1_k0_1) + (f64x2){rest_i0_1_k0_0, rest_i0_1_k0_1};
                    for (int64_t e = origin[p_k1 * 4 + 2]; e >= 0; e = repeats ? repeats[e] : -1) {
                        O_[e] = vals[e] * dots[0];
                    }
                    for (int64_t e = origin[p_k1 * 4 + 3]; e >= 0; e = repeats ? repeats[e] : -1) {
                        O_[e] = vals[e] * dots[1];
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
    const int64_t last_k0 = A->n_positions[3] - 1;
    const double *restrict vals = (const double *)call->vals;
    const int32_t *restrict origin = A->origin;
    const int32_t *restrict repeats = A->repeats;
    double *restrict O_ = (double *)call->O;
    const int64_t n_i1 = (n_i + 1) / 2;
    if (n_i == 0 || n_k == 0) {
        return 0;
    }
    if (n_j == 0) {
        for (int64_t p = 0; p <= last_k0; p++) {
            for (int64_t e = origin[p]; e >= 0; e = repeats ? repeats[e] : -1) {
                O_[e] = vals[e] * (double)0;
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
            const double serial_ns = (double)A->n_positions[3] * (0.6 + 0.04 * (double)n_j);
            A->parallel(task, &x, x.n_parts, 1, 1 + x.n_parts / (4 * n_threads), (int)n_threads, serial_ns);
        }
        bad |= x.bad;
    }
    return bad;
}
