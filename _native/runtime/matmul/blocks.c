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
enum { READ_WEIGHT = 2 }; /* of a read of B by a block, which no cache has met before: as in kernels/parts.c */

typedef struct {
    asp_blocks_args args;
    asp_blocks_kernel kernel;
    int64_t groups; /* block rows of a window */
    _Atomic int bad;
} product;

static asp_blocks_kernel kernel_of(int dtype, int64_t r)
{
    const int at = r == 2 ? 0 : r == 4 ? 1 : r == 8 ? 2 : -1;
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

static int multiply(product *job, int64_t window, int n_threads)
{
    const asp_blocks_args *args = &job->args;
    const int64_t n_windows = (args->n_rows + window - 1) / window;
    const double slots = (double)(args->n_blocks * args->r * args->c + args->n_rest);
    job->groups = window / args->r;
    asp_parallel(windows_task, job, n_windows, 1, 1 + n_windows / (16 * n_threads), n_threads,
                 slots * (0.5 + 0.01 * (double)args->n_vecs * (double)asp_element_bytes(ASP_F32)));
    return atomic_load_explicit(&job->bad, memory_order_relaxed);
}

static asp_blocks_args args_of(const asp_operand *blocks, const asp_operand *rest, int64_t r, int64_t c)
{
    asp_blocks_args args = {.n_rows = blocks->size[0], .n_cols = blocks->size[1], .r = r, .c = c, .pos = blocks->pos[1],
                            .crd = blocks->crd[1], .vals = blocks->vals, .n_blocks = blocks->n_positions[1]};
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
    product job = {.args = args_of(blocks, rest, r, c), .kernel = kernel_of(dtype, r)};
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
    product job = {.args = args_of(A, NULL, r, c), .kernel = kernel_of(dtype, r)};
    job.args.n_vecs = n_vecs;
    job.args.ldb = ldb;
    job.args.ldc = ldc;
    job.args.B = (const void *)B;
    job.args.C = (void *)C;
    return multiply(&job, WINDOW, (int)n_threads);
}

#define SHAPES(X) X(2, 2) X(2, 4) X(2, 8) X(4, 2) X(4, 4) X(4, 8) X(8, 2) X(8, 4) X(8, 8)
#define READY(dtype, r, c)                                                                                          \
    static int ready_##dtype##_##r##_##c(const asp_operand *A, uintptr_t B, int64_t ldb, uintptr_t C, int64_t ldc,  \
                                         int64_t n_vecs, int64_t n_threads, int64_t chunk)                          \
    {                                                                                                               \
        (void)chunk;                                                                                                \
        return ready(dtype, r, c, A, B, ldb, C, ldc, n_vecs, n_threads);                                            \
    }
#define BOTH(r, c) READY(ASP_F32, r, c) READY(ASP_F64, r, c)
SHAPES(BOTH)

uintptr_t asp_ready_blocks(int dtype, int64_t r, int64_t c)
{
#define ADDRESS(rows, columns)   \
    if (r == rows && c == columns) \
        return (uintptr_t)(dtype == ASP_F32 ? ready_ASP_F32_##rows##_##columns : ready_ASP_F64_##rows##_##columns);
    if (dtype != ASP_F32 && dtype != ASP_F64) return 0;
    SHAPES(ADDRESS)
    return 0;
}
