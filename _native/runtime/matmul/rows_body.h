/* Softmax and weighted sums over one sparse row, for all heads. Values are stored entry by entry, with heads inside. */

/* Compute y = exp(x - max) / sum over the n entries of a row, per head, if H divides W. in == out is allowed. A row of
 * -inf gives nan. */
ASP_TILE void NAME(row_softmax_lanes)(const R *in, R *out, int64_t n, int64_t H)
{ /* H divides W: lane l always belongs to head l % H */
    const int64_t size = n * H, full = size / W * W;
    const R minus_inf = -(R)INFINITY;
    R last[W], fold[W];
    VEC most = SPLAT(minus_inf), sum = {0};
    for (int64_t l = 0; l < W; ++l) last[l] = full + l < size ? in[full + l] : minus_inf;
    const VEC rest = LOAD(last);
    for (int64_t at = 0; at < full; at += W) {
        VEC v = LOAD(in + at);
        most = SELECT((VINT)(v > most), v, most);
    }
    most = SELECT((VINT)(rest > most), rest, most);
    STORE(fold, most);
    for (int64_t l = H; l < W; ++l) fold[l % H] = fold[l] > fold[l % H] ? fold[l] : fold[l % H];
    for (int64_t l = H; l < W; ++l) fold[l] = fold[l % H];
    most = LOAD(fold);
    for (int64_t at = 0; at < full; at += W) {
        VEC e = NAME(vexp)(LOAD(in + at) - most);
        sum += e;
        STORE(out + at, e);
    }
    const VEC e = NAME(vexp)(rest - most);
    STORE(last, e);
    STORE(fold, sum + e);
    for (int64_t l = H; l < W; ++l) fold[l % H] += fold[l];
    for (int64_t h = 0; h < H; ++h) fold[h] = (R)1 / fold[h];
    for (int64_t l = H; l < W; ++l) fold[l] = fold[l % H];
    const VEC factor = LOAD(fold);
    for (int64_t at = 0; at < full; at += W) STORE(out + at, LOAD(out + at) * factor);
    for (int64_t l = 0; full + l < size; ++l) out[full + l] = last[l] * fold[l];
}

/* Compute the softmax of a row for any number of heads. */
ASP_TILE void NAME(row_softmax)(const R *in, R *out, int64_t n, int64_t H)
{
    if (n == 0) return;
    if (W % H == 0) {
        NAME(row_softmax_lanes)(in, out, n, H);
        return;
    }
    R column[W];
    for (int64_t h = 0; h < H; ++h) {
        R most = -(R)INFINITY, sum = 0;
        for (int64_t p = 0; p < n; ++p) most = in[p * H + h] > most ? in[p * H + h] : most;
        for (int64_t p = 0; p < n; p += W) {
            const int64_t some = n - p < W ? n - p : W;
            for (int64_t l = 0; l < W; ++l) column[l] = l < some ? in[(p + l) * H + h] - most : 0;
            STORE(column, NAME(vexp)(LOAD(column)));
            for (int64_t l = 0; l < some; ++l) {
                sum += column[l];
                out[(p + l) * H + h] = column[l];
            }
        }
        for (int64_t p = 0; p < n; ++p) out[p * H + h] /= sum;
    }
}

/* Compute the gradient of the softmax of a row if H divides W. */
ASP_TILE void NAME(row_softmax_backward_lanes)(const R *y, const R *dy, R *dx, int64_t n, int64_t H)
{ /* H divides W: lane l always belongs to head l % H */
    const int64_t size = n * H, full = size / W * W;
    R dot[W];
    VEC sum = {0};
    for (int64_t at = 0; at < full; at += W) sum += LOAD(y + at) * LOAD(dy + at);
    STORE(dot, sum);
    for (int64_t l = 0; full + l < size; ++l) dot[l] += y[full + l] * dy[full + l];
    for (int64_t l = H; l < W; ++l) dot[l % H] += dot[l];
    for (int64_t l = H; l < W; ++l) dot[l] = dot[l % H];
    const VEC dots = LOAD(dot);
    for (int64_t at = 0; at < full; at += W) STORE(dx + at, LOAD(y + at) * (LOAD(dy + at) - dots));
    for (int64_t l = 0; full + l < size; ++l) dx[full + l] = y[full + l] * (dy[full + l] - dot[l]);
}

/* Compute dx = y * (dy - sum(y * dy)) over a row, per head; dx == dy is allowed. */
ASP_TILE void NAME(row_softmax_backward)(const R *y, const R *dy, R *dx, int64_t n, int64_t H)
{
    if (W % H == 0) {
        NAME(row_softmax_backward_lanes)(y, dy, dx, n, H);
        return;
    }
    for (int64_t h = 0; h < H; ++h) {
        R dot = 0;
        for (int64_t p = 0; p < n; ++p) dot += y[p * H + h] * dy[p * H + h];
        for (int64_t p = 0; p < n; ++p) dx[p * H + h] = y[p * H + h] * (dy[p * H + h] - dot);
    }
}

/* Define the computation of T vectors of out = sum over the nonzeros [p, end) of w * V[column]; V points to the head
 * and feature already. */
#define G_WEIGHTED(name, VTYPE, LOADV, STOREV, width)                                                              \
    ASP_TILE void NAME(name)(const g_weighted *s, const R *V, const R *w, int64_t p, int64_t end, R *out, int T)    \
    {                                                                                                              \
        const I *indices = s->indices, *perm = s->perm;                                                            \
        const int64_t H = s->n_heads;                                                                              \
        VTYPE sum[4] = {{0}};                                                                                      \
        for (; p < end; ++p) {                                                                                     \
            const R *v = V + (int64_t)indices[p] * s->ldv;                                                         \
            const R weight = w[(perm ? (int64_t)perm[p] : p) * H];                                                 \
            if (p + G_AHEAD < s->nnz)                                                                              \
                for (int t = 0; t < T; t += 64 / (int)sizeof(VTYPE) ? 64 / (int)sizeof(VTYPE) : 1)                 \
                    __builtin_prefetch(V + (int64_t)indices[p + G_AHEAD] * s->ldv + t * (width));                  \
            ASP_UNROLL                                                                                             \
            for (int t = 0; t < T; ++t) sum[t] += weight * LOADV(v + t * (width));                                 \
        }                                                                                                          \
        for (int t = 0; t < T; ++t) STOREV(out + t * (width), sum[t] * (R)s->scale);                               \
    }
G_WEIGHTED(weighted_wide, VEC, LOAD, STORE, W)
G_WEIGHTED(weighted_narrow, QUAD, LOAD4, STORE4, 4)
#undef G_WEIGHTED

/* Compute one row (n_heads x F) of out = scale * sum over the row's nonzeros of w[p, h] * V[column, h, :]. The part of
 * F beyond whole vectors is computed by a vector that ends at F, so some values are computed twice. */
static void NAME(row_weighted)(const g_weighted *s, int64_t p, int64_t end, R *out)
{
    const int64_t F = s->F, H = s->n_heads;
    for (int64_t h = 0; h < H; ++h, out += F) {
        const R *V = (const R *)s->V + h * F, *w = (const R *)s->w + h;
        int64_t f = 0;
        if (F >= W) {
            for (; f + 4 * W <= F; f += 4 * W) NAME(weighted_wide)(s, V + f, w, p, end, out + f, 4);
            for (; f + 2 * W <= F; f += 2 * W) NAME(weighted_wide)(s, V + f, w, p, end, out + f, 2);
            for (; f + W <= F; f += W) NAME(weighted_wide)(s, V + f, w, p, end, out + f, 1);
            if (f < F) NAME(weighted_wide)(s, V + F - W, w, p, end, out + F - W, 1);
        } else if (F >= 4) {
            for (; f + 8 <= F; f += 8) NAME(weighted_narrow)(s, V + f, w, p, end, out + f, 2);
            for (; f + 4 <= F; f += 4) NAME(weighted_narrow)(s, V + f, w, p, end, out + f, 1);
            if (f < F) NAME(weighted_narrow)(s, V + F - 4, w, p, end, out + F - 4, 1);
        } else {
            const I *indices = s->indices, *perm = s->perm;
            for (; f < F; ++f) {
                R sum = 0;
                for (int64_t q = p; q < end; ++q)
                    sum += w[(perm ? (int64_t)perm[q] : q) * H] * V[(int64_t)indices[q] * s->ldv + f];
                out[f] = sum * (R)s->scale;
            }
        }
    }
}
