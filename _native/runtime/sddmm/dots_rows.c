/* Dot products of rows of X with rows of Y at the entries of a sparse matrix, for K of whole vectors. The row of X
 * stays in registers, and no addresses are stored as in dots.c, which can cost as much as the products. */
#include "graph_common.h"
#include "matmul.h"
#include "sddmm.h"
#include "identical_rows.h"

#include ASP_INTRINSICS

enum {
    MAX_VECTORS = 16, /* maximum vectors of a row of X: those that fit the register file beside the sums */
    SHORT_BYTES = 128, /* rows up to this size compute their results one after another */
    /* Mean entries per row below which most rows have one entry, so identical rows are not searched for. */
    FEW_ENTRIES = 2,
    LINE = 64,
    LONG_BYTES = 512,    /* size of rows of Y from which their beginnings are prefetched, few entries ahead */
    FIRST_BYTES = 128,   /* bytes of them, where the last-level cache holds Y: the hardware prefetcher follows */
    RESIDENT_BYTES = 1 << 21, /* size of Y that the L2 cache holds */
    STREAMING_BYTES = 1 << 25,  /* size of Y from which prefetching more, or short rows, pays */
    /* If X and Y contend for the last-level cache, whole rows of both are prefetched far ahead into the L2 cache. */
    CONTENDED_BYTES = 16 << 10, /* prefetch distance in bytes of Y */
    /* Rows of Y beyond this size are fetched early enough by Zen 5 itself: prefetching takes 1 to 1.8 times as long. */
    FETCHED_BYTES = 1024,
    ROWS_AHEAD = 4,           /* prefetch distance of rows of X, for which all sums of a new row wait */
    CONTENDED_ENTRIES = 24      /* mean entries per row from which rows of Y are reused soon */
};

g_ahead g_rows_ahead(const g_sddmm *s)
{
    const int64_t row = s->K * (s->dtype == ASP_F32 ? 4 : 8), all = s->n_cols * row;
    if (s->ahead > 0) {
        const int to_l2 = s->ahead >= L2_AHEAD;
        return (g_ahead){to_l2 ? row : asp_min(row, LONG_BYTES), s->ahead, row < LONG_BYTES ? 0 : ROWS_AHEAD, to_l2};
    }
    if (row < LONG_BYTES) return (g_ahead){all <= STREAMING_BYTES ? 0 : row, 32, 0, 0};
    const int is_early = asp_prefetches_early();
    if (!(is_early && row > FETCHED_BYTES) && asp_llc_contention(s->n_rows, s->n_cols, row) == 2 &&
        asp_prefetches_to_l2(s->nnz, s->n_rows, CONTENDED_ENTRIES))
        return (g_ahead){all <= RESIDENT_BYTES ? 0 : row, asp_max(4, CONTENDED_BYTES / row), ROWS_AHEAD, 1};
    if (is_early) return (g_ahead){0, 0, ROWS_AHEAD, 0};
    return (g_ahead){all <= RESIDENT_BYTES ? 0 : all <= STREAMING_BYTES ? FIRST_BYTES : LONG_BYTES, 8, 0, 0};
}

/* Return the number of values of every row of Y before its first cache line begins; 0 where rows differ, where the
 * offset is no whole value, or where sums must not depend on it. */
static inline int64_t g_lead(const g_sddmm *s)
{
    const int64_t width = s->dtype == ASP_F32 ? 4 : 8;
    const int64_t before = (int64_t)(-(uintptr_t)s->Y % LINE);
    return s->is_fixed || s->ldy * width % LINE || before % width ? 0 : before / width;
}

#define G_BODY "dots_rows_body.h"
#include "graph_each.h"

typedef void (*g_rows_fn)(const g_sddmm *s, int64_t row, int64_t p, int64_t end);
static const g_rows_fn rows_table[][2][2] = G_TABLE(rows);

int g_dots_by_row(const g_sddmm *s, int isa)
{
    const int64_t values = asp_isa_bytes[isa] / (s->dtype == ASP_F32 ? 4 : 8), width = values < 4 ? 4 : values;
    const int64_t n_vectors = s->K / width;
    const int64_t most = isa > 0 || !ASP_X86 ? MAX_VECTORS : MAX_VECTORS / 2;
    const int is_power = n_vectors >= 1 && n_vectors <= most && (n_vectors & (n_vectors - 1)) == 0;
    return s->n_heads == 1 && s->K % width == 0 && is_power && s->nnz >= s->n_rows;
}

void g_dots_of_rows(const g_sddmm *s, int isa, int64_t row, int64_t p, int64_t end)
{
    rows_table[isa][s->dtype][s->itype](s, row, p, end);
}
