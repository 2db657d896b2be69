/* out[p] = alpha * <X[i,:], Y[j,:]> + beta * in[p] for each stored p = (i, j), per head (see sddmm.c). */
#include "dots_body.h"

ASP_INLINE void NAME(sddmm_rows)(const g_sddmm *s, int64_t p, int64_t p_end, int64_t n_full)
{
    const I *indptr = s->indptr;
    for (int64_t row = G_PASTE2(g_row_of, I)(indptr, s->n_rows, p); p < p_end; ++row) {
        int64_t end = (int64_t)indptr[row + 1] < p_end ? (int64_t)indptr[row + 1] : p_end;
        if (end <= p) continue;
        NAME(row_heads)(s, row, p, end, n_full);
        p = end;
    }
}

#define G_WIDTH(n) \
    static void NAME(sddmm_##n)(const g_sddmm *s, int64_t begin, int64_t end) { NAME(sddmm_rows)(s, begin, end, n); }
G_WIDTH(1)
G_WIDTH(2)
G_WIDTH(4)
G_WIDTH(8)
G_WIDTH(16)
#undef G_WIDTH

static void NAME(sddmm)(const void *args, int64_t begin, int64_t end)
{
    const g_sddmm *s = args;
    switch (s->K / W) {
    case 1: NAME(sddmm_1)(s, begin, end); return;
    case 2: NAME(sddmm_2)(s, begin, end); return;
    case 4: NAME(sddmm_4)(s, begin, end); return;
    case 8: NAME(sddmm_8)(s, begin, end); return;
    case 16: NAME(sddmm_16)(s, begin, end); return;
    default: NAME(sddmm_rows)(s, begin, end, s->K / W);
    }
}
