/* One row of X against rows of Y, four at a time, with the row of X in registers: see dots_rows.c. */

ASP_INLINE void NAME(one_row)(const g_sddmm *s, int64_t row, int64_t p, int64_t stop, int64_t last, int64_t ahead,
                              int64_t n_full)
{
    const I *indices = s->indices;
    const R *in = s->in, *times = s->times, alpha = (R)s->alpha, beta = (R)s->beta;
    const R *from = (const R *)s->X + row * s->ldx, *Y = s->Y;
    const int64_t ldy = s->ldy;
    R *out = s->out;
    const int64_t far = n_full > 8 ? NEAR_AHEAD : FAR_AHEAD;
    VEC x[MOST_VECTORS];
    for (int64_t v = 0; v < n_full; ++v) x[v] = LOAD(from + v * W);
    for (; p + 4 <= stop; p += 4) {
        const R *y[4];
        VEC sum[4];
        for (int l = 0; l < 4; ++l) y[l] = Y + (int64_t)indices[p + l] * ldy;
        if (ahead && p + far + 4 <= last)
            for (int l = 0; l < 4; ++l)
                for (int64_t at = 0; at < ahead; at += 64)
                    __builtin_prefetch((const char *)(Y + (int64_t)indices[p + far + l] * ldy) + at);
        for (int l = 0; l < 4; ++l) sum[l] = x[0] * LOAD(y[l]);
        for (int64_t v = 1; v < n_full; ++v)
            for (int l = 0; l < 4; ++l) sum[l] += x[v] * LOAD(y[l] + v * W);
        QUAD dots = NAME(fold4)(sum[0], sum[1], sum[2], sum[3]) * alpha;
        if (in) dots += beta * LOAD4(in + p);
        if (times) dots *= LOAD4(times + p);
        STORE4(out + p, dots);
    }
    for (; p < stop; ++p) {
        const R *y = Y + (int64_t)indices[p] * ldy;
        VEC sum = x[0] * LOAD(y);
        for (int64_t v = 1; v < n_full; ++v) sum += x[v] * LOAD(y + v * W);
        R value = alpha * NAME(sum)(sum);
        if (in) value += beta * in[p];
        out[p] = times ? value * times[p] : value;
    }
}

ASP_INLINE void NAME(all_rows)(const g_sddmm *s, int64_t row, int64_t p, int64_t end, int64_t n_full)
{
    const I *indptr = s->indptr, *indices = s->indices;
    const int64_t ahead = g_bytes_ahead(s);
    for (; p < end; ++row) {
        const int64_t stop = asp_min((int64_t)indptr[row + 1], end);
        if (stop <= p) continue;
        if (s->indices_out) memcpy((I *)s->indices_out + p, indices + p, (size_t)(stop - p) * sizeof(I));
        NAME(one_row)(s, row, p, stop, end, ahead, n_full);
        p = stop;
    }
}

#define G_WIDTH(n)                                                                                             \
    static ASP_NOINLINE void NAME(rows_##n)(const g_sddmm *s, int64_t row, int64_t p, int64_t end)             \
    {                                                                                                          \
        NAME(all_rows)(s, row, p, end, n);                                                                     \
    }
G_WIDTH(1)
G_WIDTH(2)
G_WIDTH(4)
G_WIDTH(8)
G_WIDTH(16)
#undef G_WIDTH

static void NAME(rows)(const g_sddmm *s, int64_t row, int64_t p, int64_t end)
{
    switch (s->K / W) {
    case 1: NAME(rows_1)(s, row, p, end); return;
    case 2: NAME(rows_2)(s, row, p, end); return;
    case 4: NAME(rows_4)(s, row, p, end); return;
    case 8: NAME(rows_8)(s, row, p, end); return;
    default: NAME(rows_16)(s, row, p, end);
    }
}
