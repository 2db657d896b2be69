/* Kernels of sampled dot products that sources of this folder share. */
#ifndef ASP_SDDMM_H
#define ASP_SDDMM_H

#include "graph_common.h"

/* Prefetching: `bytes` of the rows of Y that are `entries` ahead, into the L2 cache if `to_l2`; unless 0, the row of
 * X that is `rows` ahead, into the L2 cache. */
typedef struct {
    int64_t bytes, entries, rows, to_l2;
} g_ahead;

/* Return the prefetching for these operands. */
g_ahead g_rows_ahead(const g_sddmm *s);

/* Kernels for any number of columns; g_dots_by_any returns whether they support the operands. */
int g_dots_by_any(const g_sddmm *s, int isa);
void g_dots_of_any(const g_sddmm *s, int isa, int64_t row, int64_t p, int64_t end);

#endif
