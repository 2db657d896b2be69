/* Products with a sparse operand stored in several parts, one after the other. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include "kernel_api.h"
#include "panels.h"
#include "parts_api.h"

typedef int (*asp_kernel_function)(const asp_operand *A, uintptr_t B, int64_t ldB, uintptr_t C, int64_t ldC,
                                   int64_t n_j, int64_t n_threads, int64_t chunk);
/* Weight of a read of a row of B in the decision to copy B. A block reads a row once for several rows of A, so the
 * remaining reads are mostly cache misses. With 4 x 4 blocks beside scattered entries, 23 reads of each of 6,000 rows
 * of 1 KiB take 3.0 ms with panels and 4.5 ms without (Xeon, 2 MiB L2 cache). */
enum { READ_WEIGHT = 2 };

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

int asp_run_parts(const asp_part *parts, int64_t n_parts, uintptr_t B, int64_t ldB, uintptr_t C, int64_t ldC, int64_t n_j,
                  int64_t n_threads, int64_t value_bytes, int64_t n_reads)
{
    const int64_t row_bytes = n_j * value_bytes, ldb_bytes = ldB * value_bytes, n_inner = parts[0].A->size[1];
    asp_panels panels = {row_bytes, row_bytes, 0};
    if (n_j > 1)
        panels = asp_choose_panels((const void *)B, n_inner, row_bytes, ldb_bytes, READ_WEIGHT * n_reads);
    char *panel = asp_take_panel(&panels, n_inner);
    int bad = 0;
    for (int64_t at = 0; at < row_bytes; at += panels.width) {
        const int64_t width = least(panels.width, row_bytes - at), n_columns = width / value_bytes;
        uintptr_t from = B + (uintptr_t)at;
        int64_t ld = ldB;
        if (panel) {
            asp_copy_panel(panel, panels.ld, (const char *)from, ldb_bytes, n_inner, width, (int)n_threads);
            from = (uintptr_t)panel;
            ld = panels.ld / value_bytes;
        }
        for (int64_t p = 0; p < n_parts; p++)
            bad |= ((asp_kernel_function)parts[p].kernel)(parts[p].A, from, ld, C + (uintptr_t)at, ldC, n_columns,
                                                          least(n_threads, parts[p].most_threads), parts[p].chunk);
    }
    if (panel)
        asp_give_panel();
    return bad;
}
