/* Row ranges of the kernels in attention.c. */
#include "dots_body.h"
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

/* Dot products of one row with a constant number of vectors where that is common. */
static void NAME(row_scores)(const g_sddmm *s, int64_t row, int64_t p, int64_t end)
{
    if (p >= end) return;
    switch (s->K / W) {
    case 1: NAME(row_heads)(s, row, p, end, 1); return;
    case 2: NAME(row_heads)(s, row, p, end, 2); return;
    case 4: NAME(row_heads)(s, row, p, end, 4); return;
    default: NAME(row_heads)(s, row, p, end, s->K / W);
    }
}

/* Additive scores of a row: leaky_relu(q[i, h] + k[j, h]). */
ASP_INLINE void NAME(row_additive)(const g_attention *a, int64_t row, int64_t p, int64_t end)
{
    const I *indices = a->dots.indices;
    const int64_t H = a->sums.n_heads;
    const R *q = (const R *)a->q + row * H, *k = a->k, slope = (R)a->slope;
    R *score = a->alpha;
    for (; p < end; ++p)
        for (int64_t h = 0; h < H; ++h) {
            const R s = q[h] + k[(int64_t)indices[p] * H + h];
            score[p * H + h] = s > 0 ? s : s * slope;
        }
}

/* Forward: scores, softmax and weighted sum of a row while its scores are in cache. */
static void NAME(attention)(const void *args, int64_t begin, int64_t end)
{
    const g_attention *a = args;
    const I *indptr = a->dots.indptr;
    const int64_t H = a->sums.n_heads;
    for (int64_t row = begin; row < end; ++row) {
        const int64_t p = (int64_t)indptr[row], q = (int64_t)indptr[row + 1];
        R *alpha = (R *)a->alpha + p * H;
        if (a->additive) NAME(row_additive)(a, row, p, q);
        else NAME(row_scores)(&a->dots, row, p, q);
        NAME(row_softmax)(alpha, alpha, q - p, H);
        NAME(row_weighted)(&a->sums, p, q, (R *)a->sums.out + row * a->sums.ldo);
    }
}

/* Backward over rows: `dots` gives d alpha = <dO[i], V[j]> in a->dscore, which becomes d score; then d q of the row. */
static void NAME(attention_backward)(const void *args, int64_t begin, int64_t end)
{
    const g_attention *a = args;
    const I *indptr = a->dots.indptr, *indices = a->dots.indices;
    const int64_t H = a->sums.n_heads;
    const R slope = (R)a->slope;
    for (int64_t row = begin; row < end; ++row) {
        const int64_t first = (int64_t)indptr[row], last = (int64_t)indptr[row + 1], at = first * H;
        R *ds = (R *)a->dscore;
        NAME(row_scores)(&a->dots, row, first, last);
        NAME(row_softmax_backward)((const R *)a->alpha + at, ds + at, ds + at, last - first, H);
        if (!a->additive) {
            NAME(row_weighted)(&a->sums, first, last, (R *)a->sums.out + row * a->sums.ldo);
            continue;
        }
        const R *q = (const R *)a->q + row * H, *k = a->k;
        R *dq = (R *)a->sums.out + row * H;
        for (int64_t h = 0; h < H; ++h) dq[h] = 0;
        for (int64_t p = first; p < last; ++p)
            for (int64_t h = 0; h < H; ++h) {
                if (q[h] + k[(int64_t)indices[p] * H + h] <= 0) ds[p * H + h] *= slope;
                dq[h] += ds[p * H + h];
            }
    }
}
