/* Products with a sparse operand stored in several parts that share rows. All parts are applied to one window of rows
 * after the other, so that they add to C while it is in the cache. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include "kernel_api.h"
#include "panels.h"
#include "parts_api.h"
#include "pool_api.h"

typedef int (*asp_kernel_function)(const asp_operand *A, uintptr_t B, int64_t ldB, uintptr_t C, int64_t ldC,
                                   int64_t n_j, int64_t n_threads, int64_t chunk);
typedef int (*asp_sampled_function)(const asp_operand *A, const uintptr_t *at, const int64_t *ld, int64_t n_j,
                                    int64_t n_threads, int64_t chunk);

/* Iterations of the kernel's parallel loop that this thread is to execute. */
static _Thread_local int64_t range_begin, range_end;

/* Replacement of asp_parallel that kernels of parts call: with chunk 1, items are iterations, and only those of this
 * thread's range are run. */
static int run_range(asp_task task, void *context, int64_t n_items, int64_t min_items, int64_t max_items,
                     int n_threads, double serial_ns)
{
    (void)min_items, (void)max_items, (void)n_threads, (void)serial_ns;
    const int64_t end = range_end < n_items ? range_end : n_items;
    if (range_begin < end)
        task(context, range_begin, end);
    return 0;
}

void *asp_range_address(void)
{
    return (void *)(uintptr_t)run_range;
}

/* Arguments of run_windows. */
typedef struct {
    const asp_part *parts;
    int64_t n_parts, window;
    const uintptr_t *at; /* SDDMM only: X, Y, results, values; NULL: SpMM */
    const int64_t *ld;
    uintptr_t B, C;
    int64_t ldB, ldC, n_j;
    int bad;
} windows_context;

/* Pool task: apply all parts to the windows [begin, end). */
static void run_windows(void *context, int64_t begin, int64_t end)
{
    windows_context *x = context;
    for (int64_t w = begin; w < end; w++)
        for (int64_t p = 0; p < x->n_parts; p++) {
            const asp_part *part = &x->parts[p];
            range_begin = w * x->window / part->rows_per_iteration;
            range_end = (w + 1) * x->window / part->rows_per_iteration;
            /* n_threads is 2, because with 1 a kernel would compute all rows instead of calling run_range. */
            if (x->at)
                ((asp_sampled_function)part->kernel)(part->A, x->at, x->ld, x->n_j, 2, 1);
            else if (((asp_kernel_function)part->kernel)(part->A, x->B, x->ldB, x->C, x->ldC, x->n_j, 2, 1))
                x->bad = 1;
        }
}

/* Weight of a read of a row of B in the decision to copy B. A block reads a row once for several rows of A, so the
 * remaining reads are mostly cache misses. With 4 x 4 blocks beside scattered entries, 23 reads of each of 6,000 rows
 * of 1 KiB take 3.0 ms with panels and 4.5 ms without (Xeon, 2 MiB L2 cache). */
enum { READ_WEIGHT = 2 };

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

/* Compute the columns of C that `x` describes: the parts that run alone, then the others window by window. */
static int run_panel(windows_context *x, int64_t n_alone, int64_t n_windows, int64_t n_threads, double serial_ns)
{
    int bad = 0;
    for (int64_t p = 0; p < n_alone; p++) {
        const asp_part *part = &x->parts[p];
        bad |= ((asp_kernel_function)part->kernel)(part->A, x->B, x->ldB, x->C, x->ldC, x->n_j,
                                                   least(n_threads, part->most_threads), part->chunk);
    }
    windows_context shared = *x;
    shared.parts += n_alone;
    shared.n_parts -= n_alone;
    if (shared.n_parts)
        asp_parallel(run_windows, &shared, n_windows, 1, 1 + n_windows / (16 * n_threads), (int)n_threads, serial_ns);
    return bad | shared.bad;
}

/* Clear the rows of C to which a part adds without an earlier part having written them. */
static void zero_rows(const asp_part *part, char *C, int64_t ld_bytes, int64_t row_bytes)
{
    for (int64_t at = 0; at < part->n_zeroed; at++)
        memset(C + part->zeroed[at] * ld_bytes, 0, (size_t)row_bytes);
}

int asp_run_parts(const asp_part *parts, int64_t n_parts, int64_t n_alone, int64_t n_rows, int64_t window, uintptr_t B,
                  int64_t ldB, uintptr_t C, int64_t ldC, int64_t n_j, int64_t n_threads, int64_t value_bytes,
                  int64_t n_reads, double serial_ns)
{
    windows_context x = {.parts = parts, .n_parts = n_parts, .window = window, .ldB = ldB, .ldC = ldC};
    const int64_t row_bytes = n_j * value_bytes, ldb_bytes = ldB * value_bytes, n_inner = parts[0].A->size[1];
    const int64_t n_windows = window ? (n_rows + window - 1) / window : 0;
    asp_panels panels = {row_bytes, row_bytes, 0};
    if (n_j > 1)
        panels = asp_choose_panels((const void *)B, n_inner, row_bytes, ldb_bytes, READ_WEIGHT * n_reads);
    char *panel = asp_take_panel(&panels, n_inner);
    int bad = 0;
    for (int64_t p = 0; p < n_alone; p++)
        zero_rows(&parts[p], (char *)C, ldC * value_bytes, row_bytes);
    for (int64_t at = 0; at < row_bytes; at += panels.width) {
        x.B = B + (uintptr_t)at;
        x.C = C + (uintptr_t)at;
        x.n_j = least(panels.width, row_bytes - at) / value_bytes;
        if (panel) {
            asp_copy_panel(panel, panels.ld, (const char *)x.B, ldb_bytes, n_inner, x.n_j * value_bytes, (int)n_threads);
            x.B = (uintptr_t)panel;
            x.ldB = panels.ld / value_bytes;
        }
        bad |= run_panel(&x, n_alone, n_windows, n_threads, serial_ns * (double)x.n_j / (double)n_j);
    }
    if (panel)
        asp_give_panel();
    return bad;
}

int asp_run_sampled_windows(const asp_part *parts, int64_t n_parts, int64_t n_rows, int64_t window, uintptr_t X,
                            int64_t ldX, uintptr_t Y, int64_t ldY, uintptr_t vals, uintptr_t out, int64_t n_j,
                            int64_t n_threads, double serial_ns)
{
    const uintptr_t at[] = {X, Y, out, vals};
    const int64_t ld[] = {ldX, ldY, 1, 1}, n_windows = (n_rows + window - 1) / window;
    windows_context x = {.parts = parts, .n_parts = n_parts, .window = window, .at = at, .ld = ld, .n_j = n_j};
    asp_parallel(run_windows, &x, n_windows, 1, 1 + n_windows / (16 * n_threads), (int)n_threads, serial_ns);
    return 0;
}

/* Compute fill for block rows of r rows; `counts` holds the entries per block column and is cleared after use. */
#define BLOCK_FILL(index)                                                                                        \
    const index *pos = indptr, *crd = indices;                                                                   \
    for (int64_t block = 0; block < n_blocks; block++) {                                                         \
        const int64_t begin = pos[block * r], last = (block + 1) * r, end = pos[last < n_rows ? last : n_rows];  \
        for (int64_t e = begin; e < end; e++)                                                                    \
            counts[crd[e] / c] += counts[crd[e] / c] < UINT16_MAX;                                               \
        for (int64_t e = begin; e < end; e++)                                                                    \
            fill[e] = counts[crd[e] / c];                                                                        \
        for (int64_t e = begin; e < end; e++)                                                                    \
            counts[crd[e] / c] = 0;                                                                              \
    }

int asp_block_fill(int itype, int64_t n_rows, int64_t n_cols, const void *indptr, const void *indices, int64_t r,
                   int64_t c, uint16_t *fill)
{
    const int64_t n_blocks = (n_rows + r - 1) / r;
    uint16_t *counts = calloc((size_t)(n_cols / c + 1), sizeof *counts);
    if (!counts)
        return -1;
    if (itype == 0) {
        BLOCK_FILL(int32_t)
    } else {
        BLOCK_FILL(int64_t)
    }
    free(counts);
    return 0;
}
