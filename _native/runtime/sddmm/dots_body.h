/* out[q * step] = (alpha * <x[q], y[q]> + beta * in[q * step]) * times[q] for q < n: see dots.c. n_full = K / W. */

#define AT(p) ((const R *)(p))

/* Return the dot products of n <= 4 entries, with 0 in the other lanes; with `shared` all x are the same row. The part
 * of K beyond whole vectors is computed by a vector that ends at K; lanes already used are cleared on both sides, so
 * that 0 * inf cannot arise. Each sum has one order whichever entries are computed with it, because threads' ranges
 * begin anywhere. */
ASP_TILE QUAD NAME(dots_of)(const g_dots *d, int64_t q, int64_t n_full, int shared, int n)
{
    const R *x[4], *y[4];
    for (int l = 0; l < n; ++l) {
        x[l] = AT(d->x[shared ? q : q + l]);
        y[l] = AT(d->y[q + l]);
    }
    const int64_t tail = d->K - n_full * W;
    VEC sum[4] = {{0}, {0}, {0}, {0}};
    G_UNROLL_4 /* not more: products of 16 vectors at once would spill to the stack */
    for (int64_t v = 0; v < n_full; ++v)
        for (int l = 0; l < n; ++l) sum[l] += LOAD(x[l] + v * W) * LOAD(y[l] + v * W);
    if (tail) {
        const VINT mask = NAME(tail_mask)(tail);
        const int64_t at = d->K - W;
        for (int l = 0; l < n; ++l)
            sum[l] += (VEC)((VINT)LOAD(x[l] + at) & mask) * (VEC)((VINT)LOAD(y[l] + at) & mask);
    }
    return NAME(fold4)(sum[0], sum[1], sum[2], sum[3]);
}

/* Store the results of n <= 4 entries from q on. */
ASP_INLINE void NAME(results_of)(const g_dots *d, int64_t q, QUAD dots, int n)
{
    const R *in = d->in, *times = d->times, beta = (R)d->beta;
    R *out = d->out;
    const int64_t step = d->step;
    dots *= (R)d->alpha;
    if (in) {
        QUAD before = {0};
        if (step == 1 && n == 4) before = LOAD4(in + q);
        else
            for (int l = 0; l < n; ++l) before[l] = in[(q + l) * step];
        dots += beta * before;
    }
    if (step == 1 && n == 4) {
        if (times) dots *= LOAD4(times + q);
        STORE4(out + q, dots);
        return;
    }
    for (int l = 0; l < n; ++l) out[(q + l) * step] = times ? dots[l] * times[q + l] : dots[l];
}

/* Return the dot product of rows shorter than a vector. */
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

/* Compute all entries; n_full is a constant in every caller but one. */
ASP_TILE void NAME(dots_some)(const g_dots *d, int64_t n_full)
{
    int64_t q = 0;
    for (; q + 4 <= d->n; q += 4) {
        /* With few vectors a second load is cheaper than an unpredictable branch. */
        const int shared = n_full > 2 && d->x[q] == d->x[q + 3];
        const QUAD dots = shared ? NAME(dots_of)(d, q, n_full, 1, 4) : NAME(dots_of)(d, q, n_full, 0, 4);
        NAME(results_of)(d, q, dots, 4);
    }
    switch (d->n - q) {
    case 3: NAME(results_of)(d, q, NAME(dots_of)(d, q, n_full, 0, 3), 3); break;
    case 2: NAME(results_of)(d, q, NAME(dots_of)(d, q, n_full, 0, 2), 2); break;
    case 1: NAME(results_of)(d, q, NAME(dots_of)(d, q, n_full, 0, 1), 1); break;
    default: break;
    }
}

#define G_WIDTH(n) \
    static ASP_NOINLINE void NAME(dots_##n)(const g_dots *d) { NAME(dots_some)(d, n); }
G_WIDTH(1)
G_WIDTH(2)
G_WIDTH(4)
#undef G_WIDTH

/* Compute rows shorter than a vector one by one. */
static void NAME(dots_short)(const g_dots *d)
{
    const R *in = d->in, *times = d->times;
    R *out = d->out;
    for (int64_t q = 0; q < d->n; ++q) {
        R value = (R)d->alpha * NAME(dot_short)(AT(d->x[q]), AT(d->y[q]), d->K);
        if (in) value += (R)d->beta * in[q * d->step];
        out[q * d->step] = times ? value * times[q] : value;
    }
}

static void NAME(dots)(const g_dots *d)
{
    switch (d->K / W) {
    case 0: NAME(dots_short)(d); return;
    case 1: NAME(dots_1)(d); return;
    case 2: NAME(dots_2)(d); return;
    case 4: NAME(dots_4)(d); return;
    default: NAME(dots_some)(d, d->K / W);
    }
}
#undef AT
