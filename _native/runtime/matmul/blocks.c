/* Blocks of a sparse operand, alone or beside its scattered entries: C is written once, by the runtime's own loops. */
#include "blocks.h"

#include "common.h"

#include <stdatomic.h>

#include "kernel_api.h"

#include "kernels.h"
#include "matmul_api.h"
#include "matmul_blocks_api.h"
#include "panels.h"
#include "pool_api.h"

enum { WINDOW = 128 };   /* rows between two tiles of columns, which read A again */
enum { BLOCKS_AHEAD = 2, COLUMNS_AHEAD = 16 }; /* whose rows of B are fetched: more gains nothing (Xeon) */
enum { READ_WEIGHT = 2 }; /* of a read of B by a block, which no cache has met before: as in kernels/parts.c */

typedef struct {
    asp_blocks_args args;
    asp_blocks_kernel kernel;
    int64_t groups; /* block rows of a window */
    int64_t panel;  /* columns of a panel, where A is stored in panels */
    int dtype;
    _Atomic int bad;
} product;

static asp_blocks_kernel kernel_of(int dtype, int64_t r, int64_t c)
{
    const int is_narrow = c == 1, at = r == 2 && !is_narrow ? 0 : r == 4 ? 1 + 2 * is_narrow : r == 8 ? 2 + 2 * is_narrow : -1;
    if (at < 0 || dtype < ASP_F32 || dtype > ASP_F64) return NULL;
#if ASP_X86
    static const asp_blocks_kernel(*const tables[])[2] = {asp_blocks_base, asp_blocks_avx2, asp_blocks_avx512};
    return tables[asp_isa()][at][dtype];
#else
    return asp_blocks_base[at][dtype];
#endif
}

static void windows_task(void *context, int64_t begin, int64_t end)
{
    product *job = context;
    const asp_blocks_args *args = &job->args;
    const int64_t n_groups = (args->n_rows + args->r - 1) / args->r;
    int bad = 0;
    for (int64_t w = begin; w < end; w++)
        bad |= job->kernel(args, w * job->groups, asp_min(n_groups, (w + 1) * job->groups));
    if (bad) atomic_store_explicit(&job->bad, 1, memory_order_relaxed);
}

/* What one thread takes, roughly. */
static double serial_ns(int64_t slots, int64_t n_vecs) { return (double)slots * (0.5 + 0.04 * (double)n_vecs); }

static int multiply(product *job, int64_t window, int n_threads)
{
    const asp_blocks_args *args = &job->args;
    const int64_t n_windows = (args->n_rows + window - 1) / window;
    job->groups = window / args->r;
    asp_parallel(windows_task, job, n_windows, 1, 1 + n_windows / (16 * n_threads), n_threads,
                 serial_ns(args->n_blocks * args->r * args->c + args->n_rest, args->n_vecs));
    return atomic_load_explicit(&job->bad, memory_order_relaxed);
}

static asp_blocks_args args_of(const asp_operand *blocks, const asp_operand *rest, int64_t r, int64_t c)
{
    asp_blocks_args args = {.n_rows = blocks->size[0], .n_cols = blocks->size[1], .r = r, .c = c, .pos = blocks->pos[1],
                            .crd = blocks->crd[1], .vals = blocks->vals, .n_blocks = blocks->n_positions[1],
                            .ahead = BLOCKS_AHEAD};
    if (rest) {
        args.rest_pos = rest->pos[1];
        args.rest_crd = rest->crd[1];
        args.rest_vals = rest->vals;
        args.n_rest = rest->n_positions[1];
    }
    return args;
}

int asp_run_blocks(int dtype, int64_t r, int64_t c, int64_t window, const asp_operand *blocks, const asp_operand *rest,
                   uintptr_t B, int64_t ldB, uintptr_t C, int64_t ldC, int64_t n_j, int64_t n_threads, int64_t n_reads)
{
    product job = {.args = args_of(blocks, rest, r, c), .kernel = kernel_of(dtype, r, c)};
    const int64_t bytes = asp_element_bytes(dtype), row_bytes = n_j * bytes, n_inner = job.args.n_cols;
    if (!job.kernel) return -1;
    asp_panels panels = {row_bytes, row_bytes, 0};
    if (n_j > 1) panels = asp_choose_panels((const void *)B, n_inner, row_bytes, ldB * bytes, READ_WEIGHT * n_reads);
    char *panel = asp_take_panel(&panels, n_inner);
    job.args.ldb = panel ? panels.ld / bytes : ldB;
    job.args.ldc = ldC;
    int bad = 0;
    for (int64_t at = 0; at < row_bytes; at += panels.width) {
        const int64_t width = asp_min(panels.width, row_bytes - at);
        job.args.n_vecs = width / bytes;
        job.args.B = (const char *)B + at;
        job.args.C = (char *)C + at;
        if (panel) {
            asp_copy_panel(panel, panels.ld, job.args.B, ldB * bytes, n_inner, width, (int)n_threads);
            job.args.B = panel;
        }
        bad |= multiply(&job, window, (int)n_threads);
    }
    if (panel) asp_give_panel();
    return bad;
}

/* As a generated kernel; a wide B was copied by whom calls, where that pays. */
static int ready(int dtype, int64_t r, int64_t c, const asp_operand *A, uintptr_t B, int64_t ldb, uintptr_t C,
                 int64_t ldc, int64_t n_vecs, int64_t n_threads)
{
    product job = {.args = args_of(A, NULL, r, c), .kernel = kernel_of(dtype, r, c)};
    job.args.n_vecs = n_vecs;
    job.args.ldb = ldb;
    job.args.ldc = ldc;
    job.args.B = (const void *)B;
    job.args.C = (void *)C;
    return multiply(&job, WINDOW, (int)n_threads);
}

/* Panels of columns of which each holds groups of r rows, and of a group the columns that one of its rows has: rows of B of
 * a panel are read from a core's own cache by all groups but the first. */
static void groups_task(void *context, int64_t begin, int64_t end)
{
    product *job = context;
    asp_blocks_args args = job->args;
    const int64_t n_groups = (args.n_rows + args.r - 1) / args.r, n_cols = args.n_cols, size = asp_element_bytes(job->dtype);
    int bad = 0;
    for (int64_t first = 0; first < n_cols; first += job->panel) {
        args.n_cols = asp_min(job->panel, n_cols - first);
        args.n_blocks = args.pos[n_groups];
        args.B = (const char *)job->args.B + first * args.ldb * size;
        args.adds = first > 0;
        bad |= job->kernel(&args, begin, end);
        args.pos += n_groups;
    }
    if (bad) atomic_store_explicit(&job->bad, 1, memory_order_relaxed);
}

static int ready_panels(int dtype, int64_t r, int64_t panel, const asp_operand *A, uintptr_t B, int64_t ldb, uintptr_t C,
                        int64_t ldc, int64_t n_vecs, int64_t n_threads)
{
    product job = {.kernel = kernel_of(dtype, r, 1), .dtype = dtype, .panel = panel};
    job.args = (asp_blocks_args){.n_rows = A->size[0], .n_cols = A->size[1], .r = r, .c = 1, .pos = A->pos[2],
                                 .crd = A->crd[2], .places = A->crd[5], .vals = A->vals, .ahead = COLUMNS_AHEAD,
                                 .n_vecs = n_vecs, .ldb = ldb, .ldc = ldc, .B = (const void *)B, .C = (void *)C};
    const int64_t n_groups = (job.args.n_rows + r - 1) / r;
    /* A thread takes its groups at once: handed out in turns, each turn would read all of B again. */
    asp_parallel(groups_task, &job, n_groups, 1, (n_groups + n_threads - 1) / n_threads, (int)n_threads,
                 serial_ns(A->n_positions[2] * r, n_vecs));
    return atomic_load_explicit(&job.bad, memory_order_relaxed);
}

/* Kernels as asp_run_kernel calls them, named KIND_DTYPE_R_C, and where those are. */
#define ENTRY(kind, multiply, dtype, r, c)                                                                          \
    static int kind##_##dtype##_##r##_##c(const asp_operand *A, uintptr_t B, int64_t ldb, uintptr_t C, int64_t ldc, \
                                          int64_t n_vecs, int64_t n_threads, int64_t chunk)                         \
    {                                                                                                               \
        (void)chunk;                                                                                                \
        return multiply(dtype, r, c, A, B, ldb, C, ldc, n_vecs, n_threads);                                         \
    }
#define ADDRESS(kind, rows, columns) \
    if (r == rows && c == columns)   \
        return (uintptr_t)(dtype == ASP_F32 ? kind##_ASP_F32_##rows##_##columns : kind##_ASP_F64_##rows##_##columns);

#define SHAPES(X) X(2, 2) X(2, 4) X(2, 8) X(4, 2) X(4, 4) X(4, 8) X(8, 2) X(8, 4) X(8, 8)
#define BLOCKS_ENTRY(r, c) ENTRY(blocks, ready, ASP_F32, r, c) ENTRY(blocks, ready, ASP_F64, r, c)
#define BLOCKS_ADDRESS(r, c) ADDRESS(blocks, r, c)
SHAPES(BLOCKS_ENTRY)

uintptr_t asp_ready_blocks(int dtype, int64_t r, int64_t c)
{
    if (dtype != ASP_F32 && dtype != ASP_F64) return 0;
    SHAPES(BLOCKS_ADDRESS)
    return 0;
}

#define PANELS(X) X(4, 256) X(8, 256)
#define PANELS_ENTRY(r, c) ENTRY(panels, ready_panels, ASP_F32, r, c) ENTRY(panels, ready_panels, ASP_F64, r, c)
#define PANELS_ADDRESS(r, c) ADDRESS(panels, r, c)
PANELS(PANELS_ENTRY)

uintptr_t asp_ready_row_panels(int dtype, int64_t r, int64_t c)
{
    if (dtype != ASP_F32 && dtype != ASP_F64) return 0;
    PANELS(PANELS_ADDRESS)
    return 0;
}
