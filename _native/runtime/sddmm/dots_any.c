/* Dot products of rows of X with rows of Y at the entries of a sparse matrix (SDDMM), for one head and any number of
 * columns K, with vectors of 32 and 64 bytes. Whole vectors of a power of two have their own kernels (dots_rows.c). */
#include "graph_common.h"
#include "irregular_rows.h"
#include "sddmm.h"

#include ASP_INTRINSICS

enum {
    ANY_KNOWN = 3,     /* maximum number of whole vectors of a row of X that are kept in registers */
    ANY_BYTES = 1 << 14, /* maximum bytes of a row of X, which is read from the L1 cache again and again */
    SAMPLED_ENTRIES = 1 << 13, /* minimum entries of a range whose rows are sampled */
};

#if ASP_X86
/* first_lanes + 8 - n: a mask of the first n <= 8 lanes. */
static const int32_t first_lanes[16] = {-1, -1, -1, -1, -1, -1, -1, -1, 0, 0, 0, 0, 0, 0, 0, 0};
#endif

#define G_BODY "dots_any_body.h"
#include "graph_each.h"

typedef void (*g_any_fn)(const g_sddmm *s, int64_t row, int64_t p, int64_t end);
static const g_any_fn any_table[][2][2] = G_TABLE(any_rows);

int g_dots_by_any(const g_sddmm *s, int isa)
{
    return asp_isa_bytes[isa] > 16 && s->n_heads == 1 && s->K > 0 && s->K * (s->dtype == ASP_F32 ? 4 : 8) <= ANY_BYTES;
}

void g_dots_of_any(const g_sddmm *s, int isa, int64_t row, int64_t p, int64_t end)
{
    any_table[isa][s->dtype][s->itype](s, row, p, end);
}
