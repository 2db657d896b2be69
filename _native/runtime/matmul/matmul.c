/* C = A B with A in CSR: distribution of rows over threads, with very long rows divided into segments.
 *
 * Work is measured in rows plus nonzeros, so that empty rows and long rows both divide well. Rows are distributed in
 * groups of ROW_GROUP counted from row 0, because a kernel may choose the summation order of a row by its group. So
 * the result does not depend on which thread computes which range. A row longer than long_row_length is summed in
 * segments of fixed length, which are added in order. The result is therefore bitwise the same for every number of
 * threads, whether or not determinism is requested.
 */
#include "matmul.h"

#include "irregular_rows.h"
#include "kernel_api.h"
#include "matmul_api.h"
#include "own_vectors.h"
#include "pairs_api.h"
#include "panels.h"
#include "pool_api.h"
#include "ready.h"
#include "short_rows.h"
#include "widen.h"

/* Minimum duration of a range; shorter ones cost more to distribute than they gain. */
enum { RANGE_NS = 4000 };
/* Bound for several passes over A's rows, which should stay in the L1 and L2 caches. */
enum { RANGE_NONZEROS_MAX = 8192 };

/* A product; written by the calling thread, read by the pool's tasks. */
typedef struct {
    asp_args args;
    asp_kernel kernel;
    int dtype, itype;
    int64_t total; /* rows plus nonzeros */
    const asp_row_observer *observer; /* or NULL */
    asp_own_vector *x;                /* or NULL: B has the type of the product */
    /* Segments of very long rows. */
    int64_t n_long_rows, segment_length, n_segments;
    int64_t *first_segment; /* first segment of each long row, and n_segments at the end */
    char *partial;          /* n_segments rows of n_vecs sums */
} product;

/* Return the row at which a range that begins at `weight` (rows plus nonzeros) starts, never inside a group that a
 * kernel sums together. */
static int64_t first_row(const product *job, int64_t weight)
{
    const asp_args *args = &job->args;
    if (weight <= 0) return 0;
    if (weight >= job->total) return args->n_rows;
    const int64_t row = asp_row_at(job->itype, args->indptr, args->n_rows, weight);
    const int64_t group = row / ROW_GROUP * ROW_GROUP, next = group + ROW_GROUP;
    if (args->n_vecs > 1 || row == group || next > args->n_rows) return row;
    const int64_t length =
        asp_index_at(job->itype, args->indptr, next) - asp_index_at(job->itype, args->indptr, group);
    return length > GROUP_NONZEROS ? row : next;
}

/* Compute the rows [begin, end) of `args`, with the calling thread's copy of x where each thread has one. */
static void run_rows(const product *job, const asp_args *args, int64_t begin, int64_t end)
{
    asp_args own = *args;
    if (job->x) own.B = asp_own_copy(job->x);
    asp_run_rows(&own, job->kernel, job->itype, begin, end);
}

/* Compute rows step by step and report them, unless a kernel has left out long rows. */
static void run_observed_rows(const product *job, int64_t first, int64_t last)
{
    const asp_row_observer *observer = job->observer;
    for (int64_t row = first, stop; row < last; row = stop) {
        stop = asp_min(last, (row / observer->step + 1) * observer->step);
        asp_run_rows(&job->args, job->kernel, job->itype, row, stop);
        if (!job->args.long_rows->count) observer->done(observer->context, row, stop);
    }
}

/* Pool task: compute the rows that begin in [begin, end). */
static void rows_task(void *context, int64_t begin, int64_t end)
{
    const product *job = context;
    const int64_t first = first_row(job, begin), last = first_row(job, end);
    if (first >= last) return;
    if (job->observer) run_observed_rows(job, first, last);
    else run_rows(job, &job->args, first, last);
}

/* Pool task: sum the segments [begin, end); each is a one-row matrix for the kernel. */
static void segments_task(void *context, int64_t begin, int64_t end)
{
    const product *job = context;
    const asp_args *args = &job->args;
    const int64_t row_bytes = args->n_vecs * asp_element_bytes(job->dtype);
    int64_t long_row = 0;
    for (int64_t segment = begin; segment < end; segment++) {
        while (job->first_segment[long_row + 1] <= segment) long_row++;
        const int64_t row = args->long_rows->rows[long_row];
        const int64_t start = asp_index_at(job->itype, args->indptr, row) +
                              (segment - job->first_segment[long_row]) * job->segment_length;
        const int64_t stop = asp_min(start + job->segment_length, asp_index_at(job->itype, args->indptr, row + 1));
        const int32_t narrow[2] = {(int32_t)start, (int32_t)stop};
        const int64_t wide[2] = {start, stop};
        asp_args one = *args;
        one.n_rows = 1;
        one.indptr = job->itype == ASP_I32 ? (const void *)narrow : wide;
        one.C = job->partial + segment * row_bytes;
        one.places = NULL;
        one.ldc = args->n_vecs;
        one.accumulate = one.stream = 0;
        one.long_row_length = INT64_MAX;
        run_rows(job, &one, 0, 1);
    }
}

#define ADD_PARTIALS(R)                                                                  \
    do {                                                                                 \
        R *c = (R *)args->C + (args->places ? args->places[row] : row) * args->ldc * words;                                 \
        const R *p = (const R *)job->partial + job->first_segment[long_row] * width;        \
        if (!args->accumulate) memset(c, 0, (size_t)width * sizeof(R));                  \
        for (int64_t s = job->first_segment[long_row]; s < job->first_segment[long_row + 1]; s++, p += width) \
            for (int64_t w = 0; w < width; w++) c[w] += p[w];                            \
    } while (0)

/* Add the sums of one long row of integers to C. */
static void add_integer_partials(const product *job, int64_t long_row, int64_t row)
{
    const asp_args *args = &job->args;
    const int64_t bytes = asp_element_bytes(job->dtype), width = args->n_vecs * bytes;
    char *c = (char *)args->C + row * args->ldc * bytes;
    if (!args->accumulate) memset(c, 0, (size_t)width);
    for (int64_t s = job->first_segment[long_row]; s < job->first_segment[long_row + 1]; s++)
        asp_add_integers(job->dtype, c, job->partial + s * width, args->n_vecs);
}

/* Add the sums of the segments to C in order. */
static void add_partials(const product *job)
{
    const asp_args *args = &job->args;
    const int64_t words = asp_words(job->dtype), width = args->n_vecs * words;
    for (int64_t long_row = 0; long_row < job->n_long_rows; long_row++) {
        const int64_t row = args->long_rows->rows[long_row];
        if (job->dtype > ASP_C128) add_integer_partials(job, long_row, row);
        else if (job->dtype == ASP_F32 || job->dtype == ASP_C64) ADD_PARTIALS(float);
        else ADD_PARTIALS(double);
    }
}

static int by_row(const void *a, const void *b)
{
    const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

/* Compute the rows that the kernels left out, segment by segment. */
static int add_long_rows(product *job, int n_threads, double ns_per_nonzero)
{
    asp_args *args = &job->args;
    int64_t first[LONG_ROWS_MAX + 1];
    job->n_long_rows = asp_min(args->long_rows->count, LONG_ROWS_MAX);
    qsort(args->long_rows->rows, (size_t)job->n_long_rows, sizeof(int64_t), by_row);
    job->segment_length = args->long_row_length / 2;
    job->n_segments = 0;
    for (int64_t long_row = 0; long_row < job->n_long_rows; long_row++) {
        const int64_t row = args->long_rows->rows[long_row];
        const int64_t length =
            asp_index_at(job->itype, args->indptr, row + 1) - asp_index_at(job->itype, args->indptr, row);
        first[long_row] = job->n_segments;
        job->n_segments += (length + job->segment_length - 1) / job->segment_length;
    }
    first[job->n_long_rows] = job->n_segments;
    job->first_segment = first;
    job->partial = malloc((size_t)(job->n_segments * args->n_vecs * asp_element_bytes(job->dtype)));
    if (!job->partial) return ASP_NO_MEMORY;
    asp_parallel(segments_task, job, job->n_segments, 1, asp_max(1, job->n_segments / 4), n_threads,
                 ns_per_nonzero * (double)(job->segment_length * job->n_segments));
    add_partials(job);
    free(job->partial);
    return ASP_OK;
}

/* Compute the product on up to n_threads threads. */
static int multiply(product *job, int n_threads)
{
    asp_args *args = &job->args;
    const double row_bytes = (double)(args->n_vecs * asp_element_bytes(job->dtype));
    const double ns_per_nonzero = args->n_vecs == 1 ? 0.45 : 0.6 + 0.012 * row_bytes;
    const double ns_per_row = args->n_vecs == 1 ? 0.6 : 1.0 + 0.02 * row_bytes;
    const double serial_ns = ns_per_nonzero * (double)args->nnz + ns_per_row * (double)args->n_rows;
    const int64_t least = asp_max(ROW_GROUP, (int64_t)((double)job->total * RANGE_NS / (serial_ns + 1)));
    const int64_t most = row_bytes > 16 * asp_vector_bytes() ? RANGE_NONZEROS_MAX : job->total;
    asp_long_rows long_rows;
    long_rows.count = 0;
    args->long_rows = &long_rows;
    args->long_row_length = asp_max(LONG_ROW_MIN, args->nnz / LONG_ROWS_MAX);
    asp_parallel(rows_task, job, job->total, least, asp_max(least, most), n_threads, serial_ns);
    return long_rows.count ? add_long_rows(job, n_threads, ns_per_nonzero) : ASP_OK;
}

int asp_has_identical_rows(int itype, int64_t n_rows, const void *indptr, const void *indices)
{
    const int64_t nnz = asp_index_at(itype, indptr, n_rows) - asp_index_at(itype, indptr, 0);
    if (nnz < IDENTICAL_ENTRIES * n_rows) return 0;
    return itype == ASP_I32 ? asp_has_identical_rows_int32_t(indptr, indices, n_rows)
                            : asp_has_identical_rows_int64_t(indptr, indices, n_rows);
}

/* Compute the product, panel by panel of B's columns. */
static int multiply_panels(product *job, int n_threads)
{
    asp_args *args = &job->args;
    const int64_t element_bytes = asp_element_bytes(job->dtype), row_bytes = args->n_vecs * element_bytes;
    const int64_t ldb_bytes = args->ldb * element_bytes;
    const char *B = args->B;
    char *C = args->C;
    const asp_panels panels = asp_choose_panels(B, args->n_cols, row_bytes, ldb_bytes, args->nnz);
    char *panel = asp_take_panel(&panels, args->n_cols);
    int status = ASP_OK;
    if (panels.width != row_bytes) job->observer = NULL; /* a row is complete after the last panel */
    for (int64_t at = 0; at < row_bytes && status == ASP_OK; at += panels.width) {
        const int64_t width = asp_min(panels.width, row_bytes - at);
        args->n_vecs = width / element_bytes;
        args->B = B + at;
        args->C = C + at;
        if (panel) {
            asp_copy_panel(panel, panels.ld, B + at, ldb_bytes, args->n_cols, width, n_threads);
            args->B = panel;
            args->ldb = panels.ld / element_bytes;
        }
        asp_choose_ways(args, job->dtype);
        status = multiply(job, n_threads);
    }
    if (panel) asp_give_panel();
    return status;
}

/* Return the kernel for rows of B of so few bytes that tiles are slow, or NULL: use tiles, or kernels for one column. */
static asp_kernel narrow_kernel(int dtype, int itype, const asp_args *args)
{
    if (args->n_vecs == 1) return args->places ? NULL : asp_narrow_kernel(dtype, itype, 1);
    const asp_kernel narrow = asp_narrow_kernel(dtype, itype, args->n_vecs);
    const asp_kernel few = asp_short_rows_kernel(dtype, itype, args);
    if (few && (asp_is_mostly_empty(args) || (!narrow && 2 * args->nnz <= 3 * args->n_rows))) return few;
    if (narrow) return narrow;
    const asp_kernel irregular = asp_irregular_kernel(dtype, itype, args);
    return irregular ? irregular : few;
}

/* Compute the product that `args` describes; prefetching, stores and long rows are set here. */
static int product_of(int dtype, int itype, asp_args args, int n_threads, const asp_row_observer *observer,
                      asp_own_vector *own)
{
    product job = {.args = args, .dtype = dtype, .itype = itype, .observer = observer, .x = own};
    job.args.asked = args.prefetch > 0;
    const int64_t element_bytes = asp_element_bytes(dtype), n_rows = args.n_rows, n_cols = args.n_cols;
    const asp_kernels *kernels = asp_kernels_for(dtype, itype, args.n_vecs * element_bytes);
    const int is_wide = args.n_vecs > 1 || args.places != NULL;
    job.args.nnz = asp_index_at(itype, args.indptr, n_rows);
    job.args.has_identical_rows = args.n_vecs > 1 && asp_has_identical_rows(itype, n_rows, args.indptr, args.indices);
    asp_kernel narrow = narrow_kernel(dtype, itype, &job.args);
    job.kernel = narrow ? narrow : is_wide ? kernels->spmm : asp_gathers() ? kernels->spmv : kernels->spmv_by_loads;
    job.total = n_rows + job.args.nnz - asp_index_at(itype, args.indptr, 0);
    if (is_wide) return multiply_panels(&job, n_threads);
    asp_column x = {NULL, NULL}, y = {NULL, NULL};
    int status = asp_column_in(&x, args.B, n_cols, args.ldb, element_bytes);
    if (status == ASP_OK) status = asp_column_in(&y, args.C, n_rows, args.ldc, element_bytes);
    job.args.B = x.elements;
    job.args.C = y.elements;
    if (y.elements != args.C) job.observer = NULL;
    job.args.ldb = job.args.ldc = 1;
    if (status == ASP_OK) status = multiply(&job, n_threads);
    asp_column_out(&y, args.C, n_rows, args.ldc, element_bytes);
    free(x.owned);
    return status;
}

int asp_csr_mm(int dtype, int itype, int64_t n_rows, int64_t n_cols, const void *indptr, const void *indices,
               const void *data, const void *B, int64_t ldb, void *C, int64_t ldc, int64_t n_vecs, int n_threads,
               int flags)
{
    if (dtype < 0 || dtype > ASP_C128) return ASP_BAD_CODE;
    return asp_csr_mm_widened(dtype, dtype, itype, n_rows, n_cols, indptr, indices, data, B, ldb, C, ldc, n_vecs,
                              n_threads, flags);
}

int asp_csr_mm_observed(int dtype, int itype, int64_t n_rows, int64_t n_cols, const void *indptr, const void *indices,
                        const void *data, const void *B, void *C, int64_t n_vecs, int n_threads,
                        const asp_row_observer *observer)
{
    asp_widen widen;
    if (dtype > ASP_C128 || !asp_find_widening(dtype, dtype, &widen) || itype < 0 || itype > ASP_I64) return ASP_BAD_CODE;
    if (n_rows < 0 || n_cols < 0 || n_vecs < 0) return ASP_BAD_SIZE;
    if (n_rows == 0 || n_vecs == 0) return ASP_OK;
    const int bytes = (int)asp_element_bytes(dtype);
    const asp_args args = {.n_rows = n_rows, .n_cols = n_cols, .n_vecs = n_vecs, .indptr = indptr, .indices = indices,
                           .data = data, .B = B, .C = C, .ldb = n_vecs, .ldc = n_vecs, .widen = widen,
                           .stored_bytes = bytes, .element_bytes = bytes};
    return product_of(dtype, itype, args, n_threads, observer, NULL);
}

/* Compute a product of two value types; `own`: see product_of. */
static int widened(int stored, int dtype, int itype, int64_t n_rows, int64_t n_cols, const void *indptr,
                   const void *indices, const void *data, const void *B, int64_t ldb, void *C, int64_t ldc,
                   int64_t n_vecs, int n_threads, int flags, asp_own_vector *own)
{
    asp_widen widen;
    if (!asp_find_widening(stored, dtype, &widen) || itype < 0 || itype > ASP_I64) return ASP_BAD_CODE;
    if (n_rows < 0 || n_cols < 0 || n_vecs < 0) return ASP_BAD_SIZE;
    if (n_rows == 0 || n_vecs == 0) return ASP_OK;
    const asp_args args = {.n_rows = n_rows, .n_cols = n_cols, .n_vecs = n_vecs, .indptr = indptr, .indices = indices,
                           .data = data, .B = B, .C = C, .ldb = ldb, .ldc = ldc, .widen = widen,
                           .stored_bytes = (int)asp_element_bytes(stored),
                           .element_bytes = (int)asp_element_bytes(dtype),
                           .is_pair = stored != dtype || dtype > ASP_C128, .accumulate = flags & ASP_FLAG_ACCUMULATE};
    return product_of(dtype, itype, args, n_threads, NULL, own);
}

int asp_csr_mm_widened(int stored, int dtype, int itype, int64_t n_rows, int64_t n_cols, const void *indptr,
                       const void *indices, const void *data, const void *B, int64_t ldb, void *C, int64_t ldc,
                       int64_t n_vecs, int n_threads, int flags)
{
    return widened(stored, dtype, itype, n_rows, n_cols, indptr, indices, data, B, ldb, C, ldc, n_vecs, n_threads, flags,
                   NULL);
}

int asp_csr_mv_widened(int stored, int dtype, int itype, int64_t n_rows, int64_t n_cols, const void *indptr,
                       const void *indices, const void *data, int x_stored, const void *x, void *copies,
                       int64_t copy_bytes, void *y, int n_threads)
{
    asp_own_vector own = {.stored = x, .copies = copies, .n = n_cols, .copy_bytes = copy_bytes};
    if (!asp_find_widening(x_stored, dtype, &own.widen) || !own.widen) return ASP_BAD_CODE;
    asp_own_begin(&own);
    return widened(stored, dtype, itype, n_rows, n_cols, indptr, indices, data, x, 1, y, 1, 1, n_threads, 0, &own);
}

/* Implementation of the precompiled kernels; row positions are stored where generated kernels expect them
 * (`_native/storage/slices.py`: SIDES), or NULL. */
static int ready(int dtype, int prefetch, const asp_operand *A, uintptr_t B, int64_t ldb, uintptr_t C, int64_t ldc,
                 int64_t n_vecs, int64_t n_threads)
{
    if (A->size[0] == 0 || n_vecs == 0) return ASP_OK;
    const asp_args args = {.n_rows = A->size[0], .n_cols = A->size[1], .n_vecs = n_vecs, .indptr = A->pos[1],
                           .indices = A->crd[1], .data = A->vals, .B = (const void *)B, .C = (void *)C, .ldb = ldb,
                           .ldc = ldc, .places = A->crd[5], .prefetch = prefetch};
    return product_of(dtype, ASP_I32, args, (int)n_threads, NULL, NULL);
}

#define READY(dtype, ahead)                                                                                     \
    static int ready_##dtype##_##ahead(const asp_operand *A, uintptr_t B, int64_t ldb, uintptr_t C, int64_t ldc, \
                                       int64_t n_vecs, int64_t n_threads, int64_t chunk)                        \
    {                                                                                                           \
        (void)chunk;                                                                                            \
        return ready(dtype, ahead, A, B, ldb, C, ldc, n_vecs, n_threads);                                       \
    }
READY_ALL(READY)

uintptr_t asp_ready_kernel(int dtype, int prefetch) { READY_ADDRESS(dtype, prefetch) }
