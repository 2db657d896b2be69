/* Dot products at the entries of a sparse matrix with rows of several entries, for K of whole vectors: the row of X
 * stays in registers, and no addresses are written down as in dots.c, which can cost as much as the products.
 */
#include "graph_common.h"

enum {
    LONG_ROW = 4,      /* entries of a row, on average, from which this pays */
    MOST_VECTORS = 16, /* of a row of X: as many as one register file holds beside the sums */
    FAR_AHEAD = 32,    /* entries from which rows of Y are asked for early, and when these rows are long */
    NEAR_AHEAD = 8
};

#define G_BODY "dots_rows_body.h"
#include "graph_each.h"

typedef void (*g_rows_fn)(const g_sddmm *s, int64_t row, int64_t p, int64_t end);
static const g_rows_fn rows_table[3][2][2] = G_TABLE(rows);
static const int64_t vector_bytes[3] = {16, 32, 64};

int g_dots_by_row(const g_sddmm *s, int isa)
{
    const int64_t values = vector_bytes[isa] / (s->dtype == ASP_F32 ? 4 : 8), width = values < 4 ? 4 : values;
    const int64_t n_vectors = s->K / width;
    const int is_power = n_vectors >= 1 && n_vectors <= MOST_VECTORS && (n_vectors & (n_vectors - 1)) == 0;
    return s->n_heads == 1 && s->K % width == 0 && is_power && s->nnz >= LONG_ROW * s->n_rows;
}

void g_dots_of_rows(const g_sddmm *s, int isa, int64_t row, int64_t p, int64_t end)
{
    rows_table[isa][s->dtype][s->itype](s, row, p, end);
}
