/* Dot products of one row of X with the rows of Y that a sparse row names; g_sddmm is in graph_common.h. */

/* Four dot products with one row x; tail values beyond n_full vectors. Never reads beyond K values of a row. */
ASP_INLINE QUAD NAME(dots4)(const R *restrict x, VEC xt, const R *const y[4], int64_t n_full, int64_t K)
{
    const int64_t tail = K - n_full * W;
    VEC a = {0}, b = {0}, c = {0}, d = {0};
    ASP_UNROLL
    for (int64_t v = 0; v < n_full; ++v) {
        a += LOAD(x + v * W) * LOAD(y[0] + v * W);
        b += LOAD(x + v * W) * LOAD(y[1] + v * W);
        c += LOAD(x + v * W) * LOAD(y[2] + v * W);
        d += LOAD(x + v * W) * LOAD(y[3] + v * W);
    }
    if (tail) { /* the last W values; those already used are cleared on both sides, so that 0 * inf cannot arise */
        VINT mask = NAME(tail_mask)(tail);
        a += xt * (VEC)((VINT)LOAD(y[0] + K - W) & mask);
        b += xt * (VEC)((VINT)LOAD(y[1] + K - W) & mask);
        c += xt * (VEC)((VINT)LOAD(y[2] + K - W) & mask);
        d += xt * (VEC)((VINT)LOAD(y[3] + K - W) & mask);
    }
    return NAME(sums4)(NAME(fold)(a), NAME(fold)(b), NAME(fold)(c), NAME(fold)(d));
}

ASP_INLINE R NAME(dot1)(const R *restrict x, VEC xt, const R *y, int64_t n_full, int64_t K)
{
    const int64_t tail = K - n_full * W;
    VEC a = {0}, b = {0};
    ASP_UNROLL
    for (int64_t v = 0; v < n_full; ++v) {
        if (v & 1) b += LOAD(x + v * W) * LOAD(y + v * W);
        else a += LOAD(x + v * W) * LOAD(y + v * W);
    }
    if (tail) b += xt * (VEC)((VINT)LOAD(y + K - W) & NAME(tail_mask)(tail));
    return NAME(sum)(a + b);
}

/* Rows shorter than a vector. */
ASP_INLINE R NAME(dot_short)(const R *x, const R *y, int64_t K)
{
    R sum = 0;
    int64_t k = 0;
    if (K >= 4) {
        QUAD q = {0};
        for (; k + 4 <= K; k += 4) q += LOAD4(x + k) * LOAD4(y + k);
        sum = (q[0] + q[1]) + (q[2] + q[3]);
    }
    for (; k < K; ++k) sum += x[k] * y[k];
    return sum;
}

/* One row x of X against the rows of Y that the nonzeros [p, end) name, head h; K values, n_full = K / W <= 16. */
ASP_INLINE void NAME(row_dots)(const g_sddmm *s, const R *x, int64_t h, int64_t p, int64_t end, int64_t n_full)
{
    const I *indices = s->indices;
    const int64_t K = s->K, H = s->n_heads, ldy = s->ldy, tail = K - n_full * W;
    const R *Y = (const R *)s->Y + h * s->head_step;
    const R *in = s->in;
    R *restrict out = s->out;
    const R alpha = (R)s->alpha, beta = (R)s->beta;
    VEC xt = tail ? (VEC)((VINT)LOAD(x + K - W) & NAME(tail_mask)(tail)) : (VEC){0};
    const int64_t bytes = K * (int64_t)sizeof(R) < 256 ? K * (int64_t)sizeof(R) : 256;
    for (; p < end; p += 4) {
        const int64_t left = end - p;
        if (left == 1) {
            R value = alpha * NAME(dot1)(x, xt, Y + indices[p] * ldy, n_full, K);
            out[p * H + h] = in ? value + beta * in[p * H + h] : value;
            return;
        }
        if (p + G_AHEAD + 4 <= s->nnz) {
            for (int q = 0; q < 4; ++q) {
                const char *later = (const char *)(Y + indices[p + G_AHEAD + q] * ldy);
                for (int64_t at = 0; at < bytes; at += 64) __builtin_prefetch(later + at);
            }
        }
        const R *y[4]; /* at the end of a row the last one is repeated */
        for (int64_t q = 0; q < 4; ++q) y[q] = Y + indices[p + (q < left ? q : left - 1)] * ldy;
        QUAD dots = alpha * NAME(dots4)(x, xt, y, n_full, K);
        if (left >= 4 && H == 1) {
            if (in) dots += beta * LOAD4(in + p);
            STORE4(out + p, dots);
        } else {
            for (int64_t q = 0; q < (left < 4 ? left : 4); ++q) {
                const int64_t at = (p + q) * H + h;
                out[at] = in ? dots[q] + beta * in[at] : dots[q];
            }
        }
    }
}

ASP_INLINE void NAME(row_dots_short)(const g_sddmm *s, const R *x, int64_t h, int64_t p, int64_t end)
{
    const I *indices = s->indices;
    const R *in = s->in, *Y = (const R *)s->Y + h * s->head_step;
    for (; p < end; ++p) {
        const int64_t at = p * s->n_heads + h;
        R value = (R)s->alpha * NAME(dot_short)(x, Y + indices[p] * s->ldy, s->K);
        ((R *)s->out)[at] = in ? value + (R)s->beta * in[at] : value;
    }
}

/* Rows longer than 16 vectors: in panels, each adding to what the one before wrote. */
static void NAME(row_dots_long)(const g_sddmm *s, const R *x, int64_t h, int64_t p, int64_t end)
{
    const int64_t panel = 16 * W;
    g_sddmm part = *s;
    for (int64_t k = 0; k < s->K; k += panel) {
        part.Y = (const R *)s->Y + k;
        part.K = s->K - k < panel ? s->K - k : panel;
        if (part.K == panel) NAME(row_dots)(&part, x + k, h, p, end, 16);
        else if (part.K >= W) NAME(row_dots)(&part, x + k, h, p, end, part.K / W);
        else NAME(row_dots_short)(&part, x + k, h, p, end);
        part.in = s->out;
        part.beta = 1;
    }
}

/* All heads of the nonzeros [p, end), which are in one row. */
ASP_INLINE void NAME(row_heads)(const g_sddmm *s, int64_t row, int64_t p, int64_t end, int64_t n_full)
{
    for (int64_t h = 0; h < s->n_heads; ++h) {
        const R *x = (const R *)s->X + row * s->ldx + h * s->head_step;
        if (n_full == 0) NAME(row_dots_short)(s, x, h, p, end);
        else if (n_full > 16) NAME(row_dots_long)(s, x, h, p, end);
        else NAME(row_dots)(s, x, h, p, end, n_full);
    }
}
