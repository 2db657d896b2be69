/* Products with a sparse operand in panels of columns, with rows side by side, and sweeps of several parts over a wide B. */
#include "blocks.h"
#include "common.h"
#include <stdalign.h>
#include <stdatomic.h>
#include <string.h>

#include "kernel_api.h"

#include "kernels.h"
#include "matmul_api.h"
#include "matmul.h"
#include "matmul_blocks_api.h"
#include "resident.h"
#include "panels.h"
#include "pool_api.h"

enum { COLUMNS_AHEAD = 16 }; /* prefetch distance in columns; larger ones gain nothing (Xeon) */

/* A product of one thread team. */
typedef struct {
    asp_blocks_args args;
    int64_t panel;  /* columns of a panel, where A is stored in panels */
    int64_t width;  /* columns of B that one thread computes, where threads divide the columns of B */
    int dtype;
    _Atomic int bad;
} product;

/* Return the kernel for block rows of r rows: 1, 4 or 8. */
static asp_blocks_kernel kernel_of(int dtype, int64_t r)
{
    static const asp_blocks_kernel(*const tables[])[2] = ASP_ISA_TABLE(asp_blocks);
    return tables[asp_isa()][r / 4][dtype];
}

/* Return the estimated time on one thread, ns. */
static double serial_ns(int64_t slots, int64_t n_vecs) { return (double)slots * (0.5 + 0.04 * (double)n_vecs); }

enum { READS_BY_TILES = 4 }; /* reads per row of B from which copying it into a tile pays */

/* Return the kernel over a cached tile of B for the instruction set in use. */
static asp_resident_kernel resident_kernel_of(int dtype)
{
    static const asp_resident_kernel *const tables[] = ASP_ISA_TABLE(asp_resident);
    return tables[asp_isa()][dtype];
}

/* Compute the block rows [begin, end) of one panel. Single rows that read each row of the panel's B several times do
 * so from a copied tile of B's columns: the rows of B are far apart, at distances that map to few sets of the L1
 * cache. Sums do not depend on the copy. */
static int groups_of_panel(int dtype, const asp_blocks_args *args, int64_t begin, int64_t end)
{
    const int64_t size = asp_element_bytes(dtype), width = args->n_vecs * size, row_bytes = args->ldb * size;
    const asp_blocks_kernel kernel = kernel_of(dtype, args->r);
    const int64_t reads = args->pos[end] - args->pos[begin];
    if (args->r > 1 || args->n_cols > RESIDENT_ROWS || reads < READS_BY_TILES * args->n_cols) return kernel(args, begin, end);
    alignas(64) char tile[RESIDENT_ROWS * RESIDENT_BYTES];
    asp_blocks_args resident = *args;
    int bad = 0;
    resident.B = tile;
    resident.ldb = RESIDENT_BYTES / size;
    resident.ahead = 0;
    for (int64_t at = 0; at < width; at += RESIDENT_BYTES) {
        const int64_t n_bytes = asp_min(RESIDENT_BYTES, width - at);
        const char *from = (const char *)args->B + at;
        for (int64_t k = 0; k < args->n_cols; k++) memcpy(tile + k * RESIDENT_BYTES, from + k * row_bytes, (size_t)n_bytes);
        resident.C = (char *)args->C + at;
        resident.n_vecs = n_bytes / size;
        const int64_t n_done = resident_kernel_of(dtype)(&resident, begin, end);
        if (n_done == resident.n_vecs) continue;
        asp_blocks_args left = resident;
        left.B = tile + n_done * size;
        left.C = (char *)resident.C + n_done * size;
        left.n_vecs -= n_done;
        bad |= kernel(&left, begin, end);
    }
    return bad;
}

/* Compute the block rows [begin, end) of `whole`, panel by panel; return whether a result is not finite. A block row
 * stores the columns that any of its r rows has. All but the first read rows of a panel's B from the core's cache. */
static int groups_of_panels(const product *job, const asp_blocks_args *whole, int64_t begin, int64_t end)
{
    asp_blocks_args args = *whole;
    const int64_t n_groups = (args.n_rows + args.r - 1) / args.r, n_cols = args.n_cols, size = asp_element_bytes(job->dtype);
    int bad = 0;
    for (int64_t first = 0; first < n_cols; first += job->panel) {
        args.n_cols = asp_min(job->panel, n_cols - first);
        args.n_blocks = args.pos[n_groups];
        args.B = (const char *)whole->B + first * args.ldb * size;
        args.adds = first > 0;
        bad |= groups_of_panel(job->dtype, &args, begin, end);
        args.pos += n_groups;
    }
    return bad;
}

/* Pool task over the block rows of panels. */
static void groups_task(void *context, int64_t begin, int64_t end)
{
    product *x = context;
    if (groups_of_panels(x, &x->args, begin, end)) atomic_store_explicit(&x->bad, 1, memory_order_relaxed);
}

/* Pool task over slices of the columns of B: each one has all block rows. */
static void columns_task(void *context, int64_t begin, int64_t end)
{
    product *job = context;
    const asp_blocks_args *whole = &job->args;
    const int64_t size = asp_element_bytes(job->dtype), n_groups = (whole->n_rows + whole->r - 1) / whole->r;
    for (int64_t s = begin; s < end; s++) {
        asp_blocks_args args = *whole;
        args.n_vecs = asp_min(job->width, whole->n_vecs - s * job->width);
        args.B = (const char *)whole->B + s * job->width * size;
        args.C = (char *)whole->C + s * job->width * size;
        if (groups_of_panels(job, &args, 0, n_groups)) atomic_store_explicit(&job->bad, 1, memory_order_relaxed);
    }
}

/* Return the operands of A stored in panels with block rows of r rows. */
static asp_blocks_args panels_of(const asp_operand *A, int64_t r)
{
    return (asp_blocks_args){.n_rows = A->size[0], .n_cols = A->size[1], .r = r, .pos = A->pos[2],
                             .crd = A->crd[2], .places = A->crd[5], .vals = A->vals, .ahead = COLUMNS_AHEAD};
}

enum { SLICE_MIN = 256 }; /* bytes of a row of B per thread from which threads divide the columns of B */
/* Compute the product with A stored in panels; return whether a result is not finite. Threads divide the columns of B
 * where it has enough: each then reads its part of B only. The order of each sum is the same in both ways. */
static int multiply_panels(product *job, int64_t n_columns, int64_t n_threads)
{
    const asp_blocks_args *args = &job->args;
    const int64_t n_groups = (args->n_rows + args->r - 1) / args->r, size = asp_element_bytes(job->dtype);
    const double expected_ns = serial_ns(n_columns * args->r, args->n_vecs);
    if (n_threads > 1 && args->n_vecs * size >= n_threads * SLICE_MIN) {
        job->width = ((args->n_vecs + n_threads - 1) / n_threads * size + 63) / 64 * 64 / size; /* whole cache lines */
        asp_parallel(columns_task, job, (args->n_vecs + job->width - 1) / job->width, 1, 1, (int)n_threads, expected_ns);
    } else { /* each thread takes all of its block rows at once: every further range would read all of B again */
        asp_parallel(groups_task, job, n_groups, 1, (n_groups + n_threads - 1) / n_threads, (int)n_threads, expected_ns);
    }
    return atomic_load_explicit(&job->bad, memory_order_relaxed);
}

/* Implementation of the precompiled kernels of panels. */
static int ready_panels(int dtype, int64_t r, int64_t panel, const asp_operand *A, uintptr_t B, int64_t ldb, uintptr_t C,
                        int64_t ldc, int64_t n_vecs, int64_t n_threads)
{
    product job = {.dtype = dtype, .panel = panel, .args = panels_of(A, r)};
    job.args.n_vecs = n_vecs;
    job.args.ldb = ldb;
    job.args.ldc = ldc;
    job.args.B = (const void *)B;
    job.args.C = (void *)C;
    return multiply_panels(&job, A->n_positions[2], n_threads);
}

/* A sweep: C is divided into slices of columns, each computed by all parts in one pass over B, panel by panel. The
 * slice width depends on sizes only, because loops over rows sum narrow tiles in another order. */
typedef struct {
    const asp_swept *parts;
    int64_t n_parts, panel, width, n_vecs, ldb, ldc, n_cols;
    const char *B;
    char *C;
    int dtype;
    int has_identical_rows; /* whether the part stored by rows has identical rows */
    _Atomic int bad;
} sweep;

/* Slice width in bytes of a row of B; with half of it sweeps took 1.1 to 1.4 times as long (Xeon). */
enum { SLICE = 1024 };

static int64_t slice_columns(const sweep *job, int64_t s) { return asp_min(job->width, job->n_vecs - s * job->width); }

static asp_blocks_args panels_of_slice(const sweep *job, const asp_swept *part, int64_t s)
{
    const int64_t offset = s * job->width * asp_element_bytes(job->dtype);
    asp_blocks_args args = panels_of(part->A, part->r);
    args.n_vecs = slice_columns(job, s);
    args.ldb = job->ldb;
    args.ldc = job->ldc;
    args.B = job->B + offset;
    args.C = job->C + offset;
    return args;
}

/* Apply panel p of a part to slice s. */
static int panel_rows(const sweep *job, const asp_swept *part, int64_t s, int64_t p)
{
    asp_blocks_args args = panels_of_slice(job, part, s);
    const int64_t n_groups = (args.n_rows + args.r - 1) / args.r, first = p * job->panel;
    args.pos += p * n_groups;
    args.n_cols = asp_min(job->panel, args.n_cols - first);
    args.n_blocks = args.pos[n_groups];
    args.adds = p > 0;
    args.B = (const char *)args.B + first * job->ldb * asp_element_bytes(job->dtype);
    return groups_of_panel(job->dtype, &args, 0, n_groups);
}

/* Apply the rows [begin, end) of a part that is stored by rows to slice s. */
static void ordered_rows(const sweep *job, const asp_swept *part, int64_t s, int64_t begin, int64_t end)
{
    const asp_operand *A = part->A;
    const int64_t n_vecs = slice_columns(job, s), size = asp_element_bytes(job->dtype), offset = s * job->width * size;
    const asp_args args = {.n_rows = A->size[0], .n_cols = A->size[1], .n_vecs = n_vecs, .indptr = A->pos[1],
                           .indices = A->crd[1], .data = A->vals, .B = job->B + offset, .C = job->C + offset,
                           .ldb = job->ldb, .ldc = job->ldc, .places = A->crd[5], .nnz = A->n_positions[1],
                           .prefetch = (int)part->prefetch, .asked = part->prefetch > 0,
                           .fetch = part->prefetch >= L2_AHEAD ? FETCH_L2 : FETCH_L1,
                           .has_identical_rows = job->has_identical_rows, .long_row_length = INT64_MAX};
    if (begin < end) asp_kernels_for(job->dtype, ASP_I32, n_vecs * size)->spmm(&args, begin, end);
}

/* Pool task: compute the slices [begin, end). */
static void slices_task(void *context, int64_t begin, int64_t end)
{
    sweep *job = context;
    int bad = 0;
    for (int64_t s = begin; s < end; s++)
        for (int64_t p = 0; p * job->panel < job->n_cols; p++)
            for (const asp_swept *part = job->parts; part < job->parts + job->n_parts; part++)
                if (part->r) bad |= panel_rows(job, part, s, p);
                else ordered_rows(job, part, s, part->starts[p], part->starts[p + 1]);
    if (bad) atomic_store_explicit(&job->bad, 1, memory_order_relaxed);
}

/* Arguments of rows_task. */
typedef struct {
    const sweep *job;
    const asp_swept *part;
    int64_t slice;
} rows_of_slice;

static void rows_task(void *context, int64_t begin, int64_t end)
{
    const rows_of_slice *x = context;
    ordered_rows(x->job, x->part, x->slice, begin, end);
}

/* Compute one slice part by part on all threads, for more threads than slices. */
static int one_by_one(const sweep *job, int64_t s, int n_threads)
{
    int bad = 0;
    for (const asp_swept *part = job->parts; part < job->parts + job->n_parts; part++) {
        const int64_t n_rows = part->A->size[0], n_vecs = slice_columns(job, s);
        if (part->r) {
            product panels = {.dtype = job->dtype, .panel = job->panel,
                              .args = panels_of_slice(job, part, s)};
            bad |= multiply_panels(&panels, part->A->n_positions[2], n_threads);
        } else {
            rows_of_slice x = {job, part, s};
            asp_parallel(rows_task, &x, n_rows, 16, 1 + n_rows / (16 * n_threads), n_threads,
                         serial_ns(part->A->n_positions[1], n_vecs));
        }
    }
    return bad;
}

int asp_run_sweep(int dtype, int64_t panel, const asp_swept *parts, int64_t n_parts, uintptr_t B, int64_t ldB, uintptr_t C,
                  int64_t ldC, int64_t n_j, int64_t n_threads, int64_t n_reads)
{
    sweep job = {.parts = parts, .n_parts = n_parts, .panel = panel, .n_vecs = n_j, .ldb = ldB, .ldc = ldC,
                 .width = SLICE / asp_element_bytes(dtype), .n_cols = parts[0].A->size[1], .B = (const char *)B,
                 .C = (char *)C, .dtype = dtype};
    const int64_t n_slices = (n_j + job.width - 1) / job.width;
    int bad = 0;
    for (int64_t at = 0; at < n_parts; at++) {
        const asp_operand *A = parts[at].A;
        if (!parts[at].r) job.has_identical_rows = asp_has_identical_rows(ASP_I32, A->size[0], A->pos[1], A->crd[1]);
    }
    if (n_threads > n_slices) {
        for (int64_t s = 0; s < n_slices; s++) bad |= one_by_one(&job, s, (int)n_threads);
        return bad;
    }
    asp_parallel(slices_task, &job, n_slices, 1, 1, (int)n_threads, serial_ns(n_reads, n_j));
    return atomic_load_explicit(&job.bad, memory_order_relaxed);
}

/* Precompiled kernels with the signature that asp_run_kernel calls, for panels of 256 columns, named panels_DTYPE_R. */
enum { PANEL = 256 };
#define ENTRY(dtype, r)                                                                                             \
    static int panels_##dtype##_##r(const asp_operand *A, uintptr_t B, int64_t ldb, uintptr_t C, int64_t ldc,       \
                                    int64_t n_vecs, int64_t n_threads, int64_t chunk)                               \
    {                                                                                                               \
        (void)chunk;                                                                                                \
        return ready_panels(dtype, r, PANEL, A, B, ldb, C, ldc, n_vecs, n_threads);                                 \
    }
#define ENTRIES(r) ENTRY(ASP_F32, r) ENTRY(ASP_F64, r)
ENTRIES(1)
ENTRIES(4)
ENTRIES(8)

uintptr_t asp_ready_row_panels(int dtype, int64_t r, int64_t c)
{
    static const uintptr_t ready[][2] = {{(uintptr_t)panels_ASP_F32_1, (uintptr_t)panels_ASP_F64_1},
                                         {(uintptr_t)panels_ASP_F32_4, (uintptr_t)panels_ASP_F64_4},
                                         {(uintptr_t)panels_ASP_F32_8, (uintptr_t)panels_ASP_F64_8}};
    const int is_known = (dtype == ASP_F32 || dtype == ASP_F64) && (r == 1 || r == 4 || r == 8) && c == PANEL;
    return is_known ? ready[r / 4][dtype] : 0;
}
