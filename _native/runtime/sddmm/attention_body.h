/* Tasks over row ranges of the kernels in attention.c. */
#include "rows_body.h"

static void NAME(softmax)(const void *args, int64_t begin, int64_t end)
{
    const g_softmax *s = args;
    const I *indptr = s->indptr;
    for (int64_t row = begin; row < end; ++row) {
        const int64_t at = (int64_t)indptr[row] * s->n_heads, n = (int64_t)indptr[row + 1] - (int64_t)indptr[row];
        if (s->y) NAME(row_softmax_backward)((const R *)s->y + at, (const R *)s->in + at, (R *)s->out + at, n, s->n_heads);
        else NAME(row_softmax)((const R *)s->in + at, (R *)s->out + at, n, s->n_heads);
    }
}

static void NAME(weighted)(const void *args, int64_t begin, int64_t end)
{
    const g_weighted *s = args;
    const I *indptr = s->indptr;
    for (int64_t row = begin; row < end; ++row)
        NAME(row_weighted)(s, (int64_t)indptr[row], (int64_t)indptr[row + 1], (R *)s->out + row * s->ldo);
}

/* Compute the additive scores of a row: leaky_relu(q[i, h] + k[j, h]). The code is branch-free, because signs are
 * unpredictable. */
ASP_TILE void NAME(additive_some)(const g_attention *a, int64_t row, int64_t p, int64_t end, const int64_t H)
{
    const I *indices = a->dots.indices;
    const R *q = (const R *)a->q + row * H, slopes[2] = {(R)a->slope, 1};
    for (; p < end; ++p) {
        const R *k = (const R *)a->k + (int64_t)indices[p] * H;
        R *score = (R *)a->alpha + p * H;
        int64_t h = 0;
        for (; h + 4 <= H; h += 4) {
            const QUAD s = LOAD4(q + h) + LOAD4(k + h);
            STORE4(score + h, SELECT4((NAME(qint))(s > 0), s, s * slopes[0]));
        }
        for (; h < H; ++h) {
            const R s = q[h] + k[h];
            score[h] = s * slopes[s > 0];
        }
    }
}

/* Turn the gradient of leaky_relu in a->dscore into the gradient of a row's scores, and sum it over the row to dq. */
ASP_TILE void NAME(additive_backward_some)(const g_attention *a, int64_t row, int64_t p, int64_t end, const int64_t H)
{
    const I *indices = a->dots.indices;
    const R *q = (const R *)a->q + row * H, slopes[2] = {(R)a->slope, 1};
    R *dq = (R *)a->sums.out + row * H;
    for (int64_t h = 0; h < H; ++h) dq[h] = 0;
    for (; p < end; ++p) {
        const R *k = (const R *)a->k + (int64_t)indices[p] * H;
        R *ds = (R *)a->dscore + p * H;
        int64_t h = 0;
        for (; h + 4 <= H; h += 4) {
            const QUAD s = LOAD4(q + h) + LOAD4(k + h), d = LOAD4(ds + h);
            const QUAD scaled = SELECT4((NAME(qint))(s > 0), d, d * slopes[0]);
            STORE4(ds + h, scaled);
            STORE4(dq + h, LOAD4(dq + h) + scaled);
        }
        for (; h < H; ++h) {
            ds[h] *= slopes[q[h] + k[h] > 0];
            dq[h] += ds[h];
        }
    }
}

#define G_BY_HEADS(name)                                                                                 \
    static void NAME(row_##name)(const g_attention *a, int64_t row, int64_t p, int64_t end)              \
    {                                                                                                    \
        switch (a->sums.n_heads) {                                                                       \
        case 1: NAME(name##_some)(a, row, p, end, 1); return;                                            \
        case 4: NAME(name##_some)(a, row, p, end, 4); return;                                            \
        case 8: NAME(name##_some)(a, row, p, end, 8); return;                                            \
        default: NAME(name##_some)(a, row, p, end, a->sums.n_heads);                                     \
        }                                                                                                \
    }
G_BY_HEADS(additive)
G_BY_HEADS(additive_backward)
#undef G_BY_HEADS

/* Return the end of the group of rows, from `row` on, whose scores are computed together: rows with up to 256 entries,
 * or one row. */
ASP_INLINE int64_t NAME(group_end)(const I *indptr, int64_t row, int64_t end)
{
    const int64_t limit = (int64_t)indptr[row] + 256;
    int64_t stop = row + 1;
    while (stop < end && (int64_t)indptr[stop + 1] <= limit) ++stop;
    return stop;
}

/* Compute the forward pass: scores, softmax and weighted sums of a group of rows while their scores are in the
 * cache. */
static void NAME(attention)(const void *args, int64_t begin, int64_t end)
{
    const g_attention *a = args;
    const I *indptr = a->dots.indptr;
    const int64_t H = a->sums.n_heads;
    for (int64_t group = begin; group < end;) {
        const int64_t stop = NAME(group_end)(indptr, group, end);
        if (!a->additive) g_dots_at(&a->dots, group, (int64_t)indptr[group], (int64_t)indptr[stop]);
        for (int64_t row = group; row < stop; ++row) {
            const int64_t p = (int64_t)indptr[row], q = (int64_t)indptr[row + 1];
            R *alpha = (R *)a->alpha + p * H;
            if (a->additive) NAME(row_additive)(a, row, p, q);
            NAME(row_softmax)(alpha, alpha, q - p, H);
            NAME(row_weighted)(&a->sums, p, q, (R *)a->sums.out + row * a->sums.ldo);
        }
        group = stop;
    }
}

/* Compute the backward pass over rows: `dots` gives d alpha = <dO[i], V[j]> in a->dscore, which becomes d score; then
 * dq of the row. */
static void NAME(attention_backward)(const void *args, int64_t begin, int64_t end)
{
    const g_attention *a = args;
    const I *indptr = a->dots.indptr;
    const int64_t H = a->sums.n_heads;
    R *ds = a->dscore;
    for (int64_t group = begin; group < end;) {
        const int64_t stop = NAME(group_end)(indptr, group, end);
        g_dots_at(&a->dots, group, (int64_t)indptr[group], (int64_t)indptr[stop]);
        for (int64_t row = group; row < stop; ++row) {
            const int64_t p = (int64_t)indptr[row], q = (int64_t)indptr[row + 1], at = p * H;
            NAME(row_softmax_backward)((const R *)a->alpha + at, ds + at, ds + at, q - p, H);
            if (a->additive) NAME(row_additive_backward)(a, row, p, q);
            else NAME(row_weighted)(&a->sums, p, q, (R *)a->sums.out + row * a->sums.ldo);
        }
        group = stop;
    }
}
