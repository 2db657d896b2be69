/* C = A^T B with A in CSR. The algorithm depends on the size of C:
 *
 * - Many wide rows: transpose A first, in temporary memory. The product then reads each row of B often but writes each
 *   row of C once, which saves more than the transposition costs.
 * - Few rows, or narrow ones: partition the rows of A. The first part adds to C itself, each other part to private
 *   sums, and these are added in order.
 * - Many rows of medium width: every nonzero adds to the row of C that its column names, and threads partition the
 *   dense columns. No two threads write to one cache line of C: columns are divided at line boundaries if these are
 *   the same in all rows, otherwise each thread adds to a private tile that is copied to C at the end.
 *
 * In the first and the last, each sum has the order of A's rows for every number of threads.
 */
#include "matmul.h"

#include <stdatomic.h>

#include "hooks.h"
#include "matmul_api.h"
#include "pairs_api.h"
#include "pool_api.h"
#include "structure_api.h"
#include "widen.h"

enum { WAY_TRANSPOSE = 0, WAY_PARTS = 1, WAY_COLUMNS = 2, WAY_TILES = 3 };
enum { LINE_BYTES = 64 };
enum { OWN_MAX_BYTES = 32 << 20 };            /* besides C; malloc keeps this much for the next product */
enum { TRANSPOSE_FROM_BYTES = 512, SPLIT_FROM_BYTES = 128 }; /* wide and medium rows of C, bytes */
enum { STREAMING_ROWS = 8 };                         /* rows of B per row of C from which C is not transposed for */
enum { CUTS_MAX = 256 };                      /* maximum number of threads that partition columns */
/* Minimum number of lines of a row of C per thread: processors fetch lines in pairs, and with one line each, two threads took
 * 1.7 to 2.3 times as long as one (Zen 4). LINES_EACH: the same if the first line is partial. */
enum { LINES_MIN = 2, LINES_EACH = 4 };
enum { PART_NS = 15000 };                      /* minimum duration of one part */
/* Number of parts of a deterministic product, and maximum number of parts. */
enum { PARTS_FIXED = 8, PARTS_MAX = 64 };
enum { PART_NONZEROS_FIXED = 32768 };          /* minimum nonzeros of a deterministic part */
enum { ALIGN_FROM = 8 };                       /* minimum nonzeros per row of C for computing it in aligned memory */
enum { PREFETCH_AHEAD = 8 };                   /* prefetch distance of rows of C, nonzeros */
/* Number of indices of a part that are compared before all are; parts that touch all but 1/UNTOUCHED_PART of the rows of C
 * clear and add all of them, which takes less time than reading every index. */
enum { SAMPLED_INDICES = 64, UNTOUCHED_PART = 8 };

typedef struct {
    asp_args args;
    const asp_kernels *kernels;
    void (*extent)(const void *indices, int64_t n, int64_t *low, int64_t *high);
    int dtype, itype;
    int64_t total, element_bytes;
    int64_t n_tiles, cuts[CUTS_MAX + 1]; /* boundaries of the dense columns of each tile */
    int64_t n_parts, sums_bytes;
    struct {
        int64_t low, high;
    } touched[PARTS_MAX]; /* per part but the first: rows of C in [low, high) contain all rows that it adds to */
    char *sums; /* private sums: (n_parts - 1) blocks of n_cols * n_vecs elements, or one block per tile */
    _Atomic int state; /* of two parts: FIRST_BEGUN and so on */
} product;
enum { FIRST_BEGUN = 1, FIRST_ENDED = 2, SECOND_ENDED = 4 };

/* Private sums that are kept for the next product. A block of the heap is used by arrays of the caller in between, whose
 * lines the other core then has to fetch: with 200 KB, products took 105 instead of 38 us in one process of eight. */
static struct {
    atomic_flag taken;
    char *memory;
    int64_t bytes;
} kept = {.taken = ATOMIC_FLAG_INIT};
enum { KEPT_MAX_BYTES = 1 << 20 }; /* more than a core's own cache holds beside A */

ASP_FORCIBLE(forced_way, asp_force_t_way)

/* Clear C unless products are added to it. */
static void clear(const asp_args *args, int64_t element_bytes)
{
    const int64_t width = args->n_vecs * element_bytes, step = args->ldc * element_bytes;
    if (args->accumulate) return;
    if (width == step) {
        memset(args->C, 0, (size_t)(args->n_cols * width));
        return;
    }
    for (int64_t i = 0; i < args->n_cols; i++) memset((char *)args->C + i * step, 0, (size_t)width);
}

/* Return the operands of columns [cuts[tile], cuts[tile + 1]) of the product. */
static asp_args tile_of(const product *job, int64_t tile)
{
    asp_args part = job->args;
    const int64_t first = job->cuts[tile];
    part.n_vecs = job->cuts[tile + 1] - first;
    part.B = (const char *)part.B + first * job->element_bytes;
    part.C = (char *)part.C + first * job->element_bytes;
    return part;
}

/* Pool task: compute the tiles [begin, end) in C. */
static void columns_task(void *context, int64_t begin, int64_t end)
{
    const product *job = context;
    for (int64_t tile = begin; tile < end; tile++) {
        const asp_args part = tile_of(job, tile);
        clear(&part, job->element_bytes);
        asp_run_scatter(&part, job->kernels->scatter, job->itype, 0, part.n_rows);
    }
}

/* Return the elements between rows of a private tile. */
static int64_t tile_ld(const product *job, int64_t tile)
{
    const int64_t bytes = (job->cuts[tile + 1] - job->cuts[tile]) * job->element_bytes;
    return (bytes + LINE_BYTES - 1) / LINE_BYTES * LINE_BYTES / job->element_bytes;
}

/* Pool task: compute the tiles [begin, end) in private memory and copy them to C. */
static void tiles_task(void *context, int64_t begin, int64_t end)
{
    const product *job = context;
    for (int64_t tile = begin; tile < end; tile++) {
        asp_args part = tile_of(job, tile);
        char *C = part.C, *own = job->sums + tile * job->sums_bytes;
        const int64_t step = part.ldc * job->element_bytes, bytes = part.n_vecs * job->element_bytes;
        part.ldc = tile_ld(job, tile);
        part.C = own;
        const int64_t own_step = part.ldc * job->element_bytes;
        if (part.accumulate)
            for (int64_t i = 0; i < part.n_cols; i++) memcpy(own + i * own_step, C + i * step, (size_t)bytes);
        clear(&part, job->element_bytes);
        asp_run_scatter(&part, job->kernels->scatter, job->itype, 0, part.n_rows);
        for (int64_t i = 0; i < part.n_cols; i++) memcpy(C + i * step, own + i * own_step, (size_t)bytes);
    }
}

/* Return the first row of part p of `n_parts`. */
static int64_t part_begin(const product *job, int64_t p, int64_t n_parts)
{
    if (p == 0 || p == n_parts) return p == 0 ? 0 : job->args.n_rows;
    return asp_row_at(job->itype, job->args.indptr, job->args.n_rows, job->total * p / n_parts);
}

/* Return whether a sample of the indices [from, to) already spans nearly all rows of C. */
static int is_spread(const product *job, int64_t from, int64_t to)
{
    const int64_t n_cols = job->args.n_cols;
    int64_t low = n_cols, high = 0;
    if (to - from < SAMPLED_INDICES * SAMPLED_INDICES / 4) return 0;
    for (int64_t at = 0; at < SAMPLED_INDICES; at++) {
        const int64_t index = asp_index_at(job->itype, job->args.indices, from + (to - from) * at / SAMPLED_INDICES);
        low = asp_min(low, index), high = asp_max(high, index);
    }
    return high - low >= n_cols - n_cols / UNTOUCHED_PART;
}

/* Compute the range [low, high) of rows of C to which rows [first, last) of A may add. */
static void find_touched(const product *job, int64_t first, int64_t last, int64_t *low, int64_t *high)
{
    const int64_t index_bytes = job->itype == ASP_I32 ? 4 : 8;
    const int64_t from = asp_index_at(job->itype, job->args.indptr, first);
    const int64_t to = asp_index_at(job->itype, job->args.indptr, last);
    *low = 0, *high = job->args.n_cols - 1;
    if (from == to) *high = -1;
    else if (!is_spread(job, from, to)) job->extent((const char *)job->args.indices + from * index_bytes, to - from, low, high);
    ++*high;
}

/* Clear the sums of part p to which rows [first, last) of A may add; for a banded matrix these are few. */
static void clear_touched(product *job, int64_t p, int64_t first, int64_t last)
{
    const int64_t row_bytes = job->args.n_vecs * job->element_bytes;
    find_touched(job, first, last, &job->touched[p].low, &job->touched[p].high);
    const int64_t low = job->touched[p].low, n_rows = job->touched[p].high - low;
    memset(job->sums + (p - 1) * job->sums_bytes + low * row_bytes, 0, (size_t)(n_rows * row_bytes));
}

/* Estimated nanoseconds per nonzero, per byte of its row of C, and per byte of private sums that are cleared and
 * added. */
static const double READ_NS = 0.8, BYTE_NS = 0.02, OWN_BYTE_NS = 0.13;

/* Return the estimated time on one thread, ns. */
static double serial_ns(const product *job)
{
    const asp_args *args = &job->args;
    const double row_bytes = (double)(args->n_vecs * job->element_bytes);
    return (READ_NS + BYTE_NS * row_bytes) * (double)args->nnz + (0.6 + 0.01 * row_bytes) * (double)args->n_rows +
           0.05 * row_bytes * (double)args->n_cols;
}

#include "add_sums_body.h"

/* Pool task: compute the parts [begin, end). */
static void parts_task(void *context, int64_t begin, int64_t end)
{
    product *job = context;
    const int is_float_column = job->args.n_vecs == 1 && job->dtype <= ASP_C128;
    const asp_kernel scatter = is_float_column ? asp_scatter_vector[job->dtype][job->itype] : job->kernels->scatter;
    for (int64_t p = begin; p < end; p++) {
        asp_args part = job->args;
        if (p > 0) {
            part.C = job->sums + (p - 1) * job->sums_bytes;
            part.ldc = part.n_vecs;
            part.accumulate = 0;
        }
        else atomic_fetch_or_explicit(&job->state, FIRST_BEGUN, memory_order_relaxed);
        const int64_t first = part_begin(job, p, job->n_parts), last = part_begin(job, p + 1, job->n_parts);
        if (p > 0) clear_touched(job, p, first, last);
        else clear(&part, job->element_bytes);
        asp_run_scatter(&part, scatter, job->itype, first, last);
        if (job->n_parts == 2) end_part_of_two(job, p);
    }
}

/* Divide the columns among n_threads threads: at cache-line boundaries of C if every row of C has them at the same
 * columns and there are enough lines, else evenly. Returns 0 in the latter case, in which each tile needs private
 * memory. */
static int cut_columns(product *job, int n_threads)
{
    const asp_args *args = &job->args;
    const int64_t item = job->element_bytes, row_bytes = args->n_vecs * item;
    const int64_t late = (int64_t)((uintptr_t)args->C % LINE_BYTES), lines = (late + row_bytes + LINE_BYTES - 1) / LINE_BYTES;
    const int64_t n = asp_max(1, asp_min(asp_min(n_threads, CUTS_MAX), row_bytes / (LINES_MIN * LINE_BYTES)));
    const int is_even = args->ldc * item % LINE_BYTES == 0 && late % item == 0 && (late == 0 || lines >= n * LINES_EACH);
    job->n_tiles = n;
    for (int64_t k = 0; k <= n; k++) {
        const int64_t at = is_even ? (lines * k / n * LINE_BYTES - late) / item : row_bytes * k / n / LINE_BYTES * LINE_BYTES / item;
        job->cuts[k] = k == 0 ? 0 : k == n ? args->n_vecs : at;
    }
    return is_even || n == 1;
}

/* Return the bytes per row of the widest private tile. */
static int64_t widest_tile(const product *job)
{
    int64_t widest = 0;
    for (int64_t k = 0; k < job->n_tiles; k++) widest = asp_max(widest, tile_ld(job, k));
    return widest * job->element_bytes;
}

/* Compute the product with threads that partition the dense columns as they were cut. */
static int by_columns(product *job, int n_threads, int is_private)
{
    asp_args *args = &job->args;
    const int64_t tile_bytes = widest_tile(job);
    args->prefetch = args->n_cols * tile_bytes > asp_private_cache_bytes() / 2 ? PREFETCH_AHEAD : 0;
    if (is_private) {
        job->sums_bytes = asp_own_bytes(args->n_cols * tile_bytes);
        job->sums = asp_take_own(job->n_tiles, job->sums_bytes);
        if (!job->sums) return ASP_NO_MEMORY;
    }
    asp_parallel(is_private ? tiles_task : columns_task, job, job->n_tiles, 1, 1, n_threads, serial_ns(job));
    asp_free_aligned(job->sums);
    return ASP_OK;
}

/* Compute the product with a transposed copy of A. */
static int by_transposing(product *job, int n_threads, int flags)
{
    const asp_args *args = &job->args;
    const int64_t index_bytes = job->itype == ASP_I32 ? 4 : 8;
    const int64_t indptr_bytes = ((args->n_cols + 1) * index_bytes + 15) / 16 * 16;
    const int64_t data_bytes = (args->nnz * job->element_bytes + 7) / 8 * 8; /* aligned indices behind the values */
    char *work = malloc((size_t)(indptr_bytes + data_bytes + args->nnz * index_bytes + 16));
    if (!work) return ASP_NO_MEMORY;
    char *t_data = work + indptr_bytes, *t_indices = t_data + data_bytes;
    int status = asp_csr_transpose((int)job->element_bytes, job->itype, args->n_rows, args->n_cols, args->indptr,
                                   args->indices, args->data, work, t_indices, t_data, NULL, n_threads);
    if (status == ASP_OK)
        status = asp_csr_mm(job->dtype, job->itype, args->n_cols, args->n_rows, work, t_indices, t_data, args->B,
                            args->ldb, args->C, args->ldc, args->n_vecs, n_threads, flags);
    free(work);
    return status;
}

/* Return the number of parts for partitioned rows. */
static int64_t parts_for(const product *job, int n_threads, int flags)
{
    const asp_args *args = &job->args;
    int64_t parts;
    if (flags & ASP_FLAG_DETERMINISTIC) parts = asp_min(PARTS_FIXED, args->nnz / PART_NONZEROS_FIXED);
    else parts = asp_min(asp_min(n_threads, PARTS_MAX), (int64_t)(serial_ns(job) / PART_NS));
    /* Clearing and adding a part's sums must be cheap compared to its share of the nonzeros. Scattering for one column
     * takes longest per byte. */
    const int64_t weight = args->n_vecs == 1 && !(flags & ASP_FLAG_DETERMINISTIC) ? 2 : 1;
    return asp_max(1, asp_min(parts, weight * args->nnz / (args->n_cols + 1)));
}

/* Set the private sums of a product by parts, NULL without memory; return whether they are the kept ones. */
static int take_sums(product *job)
{
    const int64_t bytes = (job->n_parts - 1) * job->sums_bytes;
    if (!bytes) return 0;
    if (bytes <= KEPT_MAX_BYTES && !atomic_flag_test_and_set_explicit(&kept.taken, memory_order_acquire)) {
        if (kept.bytes < bytes) {
            asp_free_aligned(kept.memory);
            kept.memory = asp_take_own(1, bytes);
            kept.bytes = kept.memory ? bytes : 0;
        }
        if ((job->sums = kept.memory)) return 1;
        atomic_flag_clear_explicit(&kept.taken, memory_order_release);
    }
    job->sums = asp_take_own(1, bytes);
    return 0;
}

/* Compute the product with threads that partition the rows of A. */
static int by_parts(product *job, int n_threads, int flags)
{
    asp_args *args = &job->args;
    const int64_t row_bytes = args->n_vecs * job->element_bytes;
    args->prefetch = args->n_vecs > 1 && args->n_cols * row_bytes > asp_private_cache_bytes() ? PREFETCH_AHEAD : 0;
    job->n_parts = parts_for(job, n_threads, flags);
    job->sums_bytes = asp_own_bytes(args->n_cols * row_bytes);
    const int is_kept = take_sums(job);
    if (job->n_parts > 1 && !job->sums) return ASP_NO_MEMORY;
    asp_parallel(parts_task, job, job->n_parts, 1, 1, n_threads, serial_ns(job));
    if (job->n_parts > 2)
        asp_parallel(add_task, job, args->n_cols, asp_max(1, 16384 / row_bytes), args->n_cols, n_threads,
                     0.1 * (double)((job->n_parts - 1) * args->n_cols * row_bytes));
    if (is_kept) atomic_flag_clear_explicit(&kept.taken, memory_order_release);
    else asp_free_aligned(job->sums);
    return ASP_OK;
}

#include "ways_body.h"

/* Compute the product, without extra memory if there is none. */
static int multiply(product *job, int n_threads, int flags)
{
    int status = ASP_NO_MEMORY;
    const int64_t most = ASP_FORCED(forced_way) < 0 ? asp_max(1, (int64_t)(serial_ns(job) / PART_NS)) : n_threads;
    switch (way_of(job, (int)asp_min(n_threads, most), flags)) {
    case WAY_TRANSPOSE: status = by_transposing(job, n_threads, flags); break;
    case WAY_PARTS: status = by_parts(job, n_threads, flags); break;
    case WAY_COLUMNS: status = by_columns(job, n_threads, 0); break;
    case WAY_TILES: status = by_columns(job, n_threads, 1); break;
    }
    if (status == ASP_OK) return ASP_OK;
    cut_columns(job, 1); /* needs no memory besides C */
    return by_columns(job, 1, 0);
}

/* Compute the product with one dense column of any stride. */
static int multiply_column(product *job, const void *B, int64_t ldb, void *C, int64_t ldc, int n_threads, int flags)
{
    asp_args *args = &job->args;
    asp_column x = {NULL, NULL}, y = {NULL, NULL};
    int status = asp_column_in(&x, B, args->n_rows, ldb, job->element_bytes);
    if (status == ASP_OK) status = asp_column_in(&y, C, args->n_cols, ldc, job->element_bytes);
    args->B = x.elements;
    args->C = y.elements;
    args->ldb = args->ldc = 1;
    if (status == ASP_OK) status = by_parts(job, n_threads, flags);
    asp_column_out(&y, C, args->n_cols, ldc, job->element_bytes);
    free(x.owned);
    return status;
}

int asp_csr_t_mm(int dtype, int itype, int64_t n_rows, int64_t n_cols, const void *indptr, const void *indices,
                 const void *data, const void *B, int64_t ldb, void *C, int64_t ldc, int64_t n_vecs, int n_threads,
                 int flags)
{
    if (dtype < 0 || dtype > ASP_C128) return ASP_BAD_CODE;
    return asp_csr_t_mm_widened(dtype, dtype, itype, n_rows, n_cols, indptr, indices, data, B, ldb, C, ldc, n_vecs,
                                n_threads, flags);
}

int asp_csr_t_mm_widened(int stored, int dtype, int itype, int64_t n_rows, int64_t n_cols, const void *indptr,
                         const void *indices, const void *data, const void *B, int64_t ldb, void *C, int64_t ldc,
                         int64_t n_vecs, int n_threads, int flags)
{
    asp_widen widen;
    if (!asp_find_widening(stored, dtype, &widen) || itype < 0 || itype > ASP_I64) return ASP_BAD_CODE;
    if (n_rows < 0 || n_cols < 0 || n_vecs < 0) return ASP_BAD_SIZE;
    if (n_cols == 0 || n_vecs == 0) return ASP_OK;
    product job = {.kernels = asp_kernels_for(dtype, itype, n_vecs * asp_element_bytes(dtype)),
                   .extent = asp_kernels_for(ASP_F32, itype, 0)->extent, .dtype = dtype, .itype = itype,
                   .element_bytes = asp_element_bytes(dtype)};
    asp_args *args = &job.args;
    *args = (asp_args){.n_rows = n_rows, .n_cols = n_cols, .n_vecs = n_vecs, .indptr = indptr, .indices = indices,
                       .data = data, .B = B, .C = C, .ldb = ldb, .ldc = ldc, .widen = widen,
                       .stored_bytes = (int)asp_element_bytes(stored), .element_bytes = (int)job.element_bytes,
                       .is_pair = stored != dtype || dtype > ASP_C128, .accumulate = flags & ASP_FLAG_ACCUMULATE};
    args->nnz = asp_index_at(itype, indptr, n_rows);
    job.total = n_rows + args->nnz - asp_index_at(itype, indptr, 0);
    if (n_vecs == 1) return multiply_column(&job, B, ldb, C, ldc, n_threads, flags);
    return multiply(&job, n_threads, flags);
}

#ifdef ASP_HOOKS
int asp_csr_t_cuts(int dtype, uintptr_t C, int64_t ldc, int64_t n_vecs, int n_threads, int64_t *cuts)
{
    product job = {.element_bytes = asp_element_bytes(dtype), .args = {.C = (void *)C, .ldc = ldc, .n_vecs = n_vecs}};
    const int is_cut = cut_columns(&job, n_threads);
    memcpy(cuts, job.cuts, sizeof job.cuts);
    return is_cut ? (int)job.n_tiles : 0;
}
#endif
