/* Row ranges of the kernels in attention.c. */
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

/* Additive scores of a row: leaky_relu(q[i, h] + k[j, h]). H is a constant where that is common. */
ASP_INLINE void NAME(additive_some)(const g_attention *a, int64_t row, int64_t p, int64_t end, const int64_t H)
{
    const I *indices = a->dots.indices;
    const R *restrict q = (const R *)a->q + row * H, *restrict k = a->k, slope = (R)a->slope;
    R *restrict score = a->alpha;
    for (; p < end; ++p)
        for (int64_t h = 0; h < H; ++h) {
            const R s = q[h] + k[(int64_t)indices[p] * H + h];
            score[p * H + h] = s > 0 ? s : s * slope;
        }
}

/* d score of a row from d leaky_relu in a->dscore, summed over the row to d q. */
ASP_INLINE void NAME(additive_backward_some)(const g_attention *a, int64_t row, int64_t p, int64_t end, const int64_t H)
{
    const I *indices = a->dots.indices;
    const R *restrict q = (const R *)a->q + row * H, *restrict k = a->k, slope = (R)a->slope;
    R *restrict ds = a->dscore, *restrict dq = (R *)a->sums.out + row * H;
    for (int64_t h = 0; h < H; ++h) dq[h] = 0;
    for (; p < end; ++p)
        for (int64_t h = 0; h < H; ++h) {
            const R s = q[h] + k[(int64_t)indices[p] * H + h], d = ds[p * H + h];
            ds[p * H + h] = s > 0 ? d : d * slope;
            dq[h] += s > 0 ? d : d * slope;
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

/* Rows from `row` on whose scores are computed at a time: many short ones, or one. */
ASP_INLINE int64_t NAME(group_end)(const I *indptr, int64_t row, int64_t end)
{
    const int64_t limit = (int64_t)indptr[row] + 256;
    int64_t stop = row + 1;
    while (stop < end && (int64_t)indptr[stop + 1] <= limit) ++stop;
    return stop;
}

/* Forward: scores, softmax and weighted sum of some rows while their scores are in cache. */
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

/* Backward over rows: `dots` gives d alpha = <dO[i], V[j]> in a->dscore, which becomes d score; then d q of the row. */
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
