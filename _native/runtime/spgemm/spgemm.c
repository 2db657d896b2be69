/* Sparse times sparse matrix by rows, in one numeric pass on several threads. Three ways to accumulate a row compete
 * (spgemm_costs.c); they give the same entries in the same order.
 *
 * SciPy computes the sizes of all rows in a first pass, which takes a third of the product's time. Here each thread
 * computes a range of rows into memory of its own and copies it to the product when all rows before it are known
 * (spgemm_result.c). Accumulators reuse pages that earlier results freed (output.c), because fresh pages cost a page
 * fault each. Consecutive rows of A with identical columns, common in systems with several unknowns per node, are
 * computed together.
 */
#include "spgemm.h"

#include "hooks.h"
#include "output.h"
#include "output_api.h"
#include "pool_api.h"
#include "spgemm_api.h"

#include <math.h>

/* Maximum and minimum of expected multiplications per range of rows, and ranges per thread between them. Entries of the
 * largest range, 12 bytes each, fit a core's own cache beside the operands. */
enum { RANGE_WORK = 1 << 15, MIN_WORK = 1 << 12, RANGES_PER_THREAD = 4 };
/* Entries of A that are sampled to expect the number of multiplications: one of SAMPLED_OF, within bounds. */
enum { SAMPLED_OF = 64, MIN_SAMPLES = 16, MAX_SAMPLES = 1024 };
enum { CACHED_BYTES = 1 << 20 };                       /* B up to this size is not prefetched */
enum { THREADS_MAX = 256 };                           /* maximum number of threads, each with its own workspace */
/* Estimated time per multiplication and per row or entry of A on one thread. */
static const double NS_PER_MULTIPLICATION = 3.0, NS_PER_ITEM = 8.0;

/* -- memory of a thread -------------------------------------------------------------------------------------------- */

int sg_reserve_sums(const sg_job *job, sg_space *space, int64_t n)
{
    if (n <= space->max_sums) return 1;
    const int64_t most = asp_max(n, 2 * space->max_sums);
    free(space->sums); /* earlier rows need no sums */
    space->sums = malloc((size_t)most * SG_LANES * job->kind->value_bytes);
    space->max_sums = space->sums ? most : 0;
    return space->sums != NULL;
}

static size_t cells_bytes(const sg_job *job) { return ((size_t)job->n_cols + 1) * job->kind->cell_bytes; }
static size_t touched_bytes(const sg_job *job) { return ((size_t)job->n_cols + 1) * job->index_bytes; }

int sg_reserve_cells(const sg_job *job, sg_space *space)
{
    if (space->cells) return 1;
    space->cells = sg_take_pages(cells_bytes(job));
    if (!space->cells) return 0;
    memset(space->cells, 0, cells_bytes(job)); /* stamps start at 0, which is no row's stamp */
    return 1;
}

/* Create the workspace of one more thread; NULL without memory. */
static sg_space *new_space(sg_job *job)
{
    sg_space *space = &job->spaces[atomic_fetch_add(&job->n_spaces, 1)];
    space->touched = sg_take_pages(touched_bytes(job));
    return space->touched ? space : NULL;
}

/* Take a workspace that no thread is using, or create one. */
static sg_space *take_space(sg_job *job)
{
    for (int k = 0; k < job->n_threads; ++k) {
        sg_space *found = atomic_exchange(&job->spare[k], NULL);
        if (found) return found;
    }
    return new_space(job);
}

/* Return a workspace to the spare slots. */
static void give_space(sg_job *job, sg_space *space)
{
    for (int k = 0; k < job->n_threads; ++k) {
        sg_space *empty = NULL;
        if (atomic_compare_exchange_strong(&job->spare[k], &empty, space)) return;
    }
}

/* Free the accumulators of a workspace. */
static void drop_work(const sg_job *job, sg_space *space)
{
    sg_give_pages(space->cells, cells_bytes(job)), sg_give_pages(space->touched, touched_bytes(job));
    free(space->sums), free(space->table);
    space->cells = space->touched = space->sums = space->table = NULL;
}

/* -- rows ---------------------------------------------------------------------------------------------------------- */

/* Return i plus the number of entries of A before row i: the measure by which rows are divided among threads. */
static int64_t items_before(const sg_job *job, int64_t i)
{
    return i + asp_index_at(job->itype, job->Ap, i);
}

/* Return the first row whose items start at or after `item`. */
static int64_t row_at(const sg_job *job, int64_t item)
{
    int64_t low = 0, high = job->n_rows;
    while (low < high) {
        const int64_t middle = low + (high - low) / 2;
        if (items_before(job, middle) < item) low = middle + 1;
        else high = middle;
    }
    return low;
}

/* Return the first row of range k; the number of rows for k = n_ranges. */
static int64_t first_row(const sg_job *job, int64_t k)
{
    const int64_t n_items = job->n_rows + job->a_nnz;
    return row_at(job, n_items / job->n_ranges * k + n_items % job->n_ranges * k / job->n_ranges);
}

/* Compute range k; return 0 without memory. */
static int compute(sg_job *job, int64_t k)
{
    sg_range *range = &job->ranges[k];
    range->row = first_row(job, k), range->row_end = first_row(job, k + 1);
    sg_space *space = take_space(job);
    if (!space) return 0;
    const int is_done = job->kind->rows(job, space, range->row, range->row_end) && sg_finish_range(job, space, k);
    give_space(job, space);
    return is_done;
}

/* Pool task: compute as many ranges as [begin, end) has, the first ones that no thread has taken. Threads take ranges in
 * the order of rows, so that few of them wait for one before. */
static void multiply(void *context, int64_t begin, int64_t end)
{
    sg_job *job = context;
    for (int64_t turn = begin; turn < end && !atomic_load(&job->failed); ++turn)
        if (!compute(job, atomic_fetch_add(&job->n_begun, 1))) atomic_store(&job->failed, 1);
}

/* Allocate what all threads share; return 0 without memory. */
static int prepare(sg_job *job, double work)
{
    const double most = fmax(MIN_WORK, fmin(RANGE_WORK, work / (RANGES_PER_THREAD * job->n_threads)));
    job->n_ranges = asp_max(1, (int64_t)fmin((double)job->n_rows, work / most));
    job->row_nnz = sg_take_pages((size_t)job->n_rows * job->index_bytes);
    job->b_same = calloc((size_t)job->n_inner + 1, sizeof *job->b_same);
    job->b_order = calloc((size_t)job->n_inner + 1, sizeof *job->b_order);
    job->spaces = calloc((size_t)job->n_threads, sizeof *job->spaces);
    job->spare = calloc((size_t)job->n_threads, sizeof *job->spare);
    job->ranges = calloc((size_t)job->n_ranges, sizeof *job->ranges);
    job->spare_chunks = calloc((size_t)sg_n_spare_chunks(job), sizeof *job->spare_chunks);
    return job->row_nnz && job->b_same && job->b_order && job->spaces && job->spare && job->ranges && job->spare_chunks;
}

/* Return the expected number of multiplications, by entries of A at equal distances: where few rows of B are long, many
 * entries of A refer to them. */
static double expected_work(const sg_job *job)
{
    const int64_t n = asp_min(MAX_SAMPLES, asp_max(job->a_nnz / SAMPLED_OF, asp_min(job->a_nnz, MIN_SAMPLES)));
    int64_t sum = 0;
    for (int64_t s = 0; s < n; ++s) {
        const int64_t k = asp_index_at(job->itype, job->Aj, job->a_nnz / n * s + job->a_nnz % n * s / n);
        sum += asp_index_at(job->itype, job->Bp, k + 1) - asp_index_at(job->itype, job->Bp, k);
    }
    return n ? (double)sum / (double)n * (double)job->a_nnz : 0;
}

/* Compute the product; return 0 without memory. */
static int run(sg_job *job)
{
    const double n_items = (double)(job->n_rows + job->a_nnz), work = expected_work(job);
    if (!prepare(job, n_items + work)) return 0;
    sg_estimate(job);
    job->far = (double)job->b_nnz * (double)(job->index_bytes + job->kind->value_bytes) > CACHED_BYTES;
    asp_parallel(multiply, job, job->n_ranges, 1, 1, job->n_threads,
                 NS_PER_ITEM * n_items + NS_PER_MULTIPLICATION * work);
    return !atomic_load(&job->failed);
}

#ifdef ASP_HOOKS
static _Atomic int64_t last_private_bytes;
int64_t asp_spgemm_private_bytes(void) { return atomic_load(&last_private_bytes); }
#endif

/* Free what only the computation needs. */
static void drop_workspaces(sg_job *job)
{
#ifdef ASP_HOOKS
    atomic_store(&last_private_bytes, atomic_load(&job->private_bytes));
#endif
    sg_drop_chunks(job);
    for (int s = 0; job->spaces && s < atomic_load(&job->n_spaces); ++s) drop_work(job, &job->spaces[s]);
}

void asp_spgemm_drop(void *handle)
{
    sg_job *job = handle;
    if (!job) return;
    drop_workspaces(job);
    sg_give_pages(job->indices, 0), sg_give_pages(job->values, 0);
    sg_give_pages(job->row_nnz, (size_t)job->n_rows * job->index_bytes);
    free((void *)job->b_same), free((void *)job->b_order), free(job->spaces), free(job->spare), free(job->ranges);
    free(job->spare_chunks), free(job);
}

void *asp_spgemm_begin(int dtype, int itype, const int64_t *shape, const void *Ap, const void *Aj, const void *Ax,
                       const void *Bp, const void *Bj, const void *Bx, int n_threads, int solver, int64_t *nnz)
{
    if (dtype < 0 || dtype >= SG_N_DTYPES || itype < 0 || itype > 1 || solver < 0 || solver >= SG_N_SOLVERS) return NULL;
    sg_job *job = calloc(1, sizeof *job);
    if (!job) return NULL;
    job->solver = solver;
    job->itype = itype, job->n_threads = n_threads > 0 ? n_threads : asp_max_threads();
    job->n_threads = (int)asp_min(job->n_threads, THREADS_MAX);
    job->kind = &sg_kinds[dtype][itype], job->index_bytes = itype == ASP_I32 ? 4 : 8;
    job->n_rows = shape[0], job->n_inner = shape[1], job->n_cols = shape[2];
    job->Ap = Ap, job->Aj = Aj, job->Ax = Ax, job->Bp = Bp, job->Bj = Bj, job->Bx = Bx;
    job->a_nnz = asp_index_at(itype, Ap, job->n_rows), job->b_nnz = asp_index_at(itype, Bp, job->n_inner);
    if (!run(job)) {
        asp_spgemm_drop(job);
        return NULL;
    }
    drop_workspaces(job);
    sg_trim_result(job);
    *nnz = job->nnz;
    return job;
}

/* -- the result ---------------------------------------------------------------------------------------------------- */

void asp_spgemm_hand_over(void *handle, int part)
{
    sg_job *job = handle;
    void **block = part ? &job->values : &job->indices;
    asp_output_hand_over(*block);
    *block = NULL;
}

/* Write the range's part of indptr. */
static void store_ends(const sg_job *job, const sg_range *range)
{
    int64_t end = range->at;
    for (int64_t i = range->row; i < range->row_end; ++i) {
        end += asp_index_at(job->itype, job->row_nnz, i);
        if (job->out_itype == ASP_I32) ((int32_t *)job->Cp)[i + 1] = (int32_t)end;
        else ((int64_t *)job->Cp)[i + 1] = end;
    }
}

/* Pool task: copy what was not handed over of the ranges [begin, end), and write their part of indptr. */
static void store(void *context, int64_t begin, int64_t end)
{
    sg_job *job = context;
    const size_t value_bytes = job->kind->value_bytes, index_bytes = job->index_bytes;
    for (int64_t k = begin; k < end; ++k) {
        const sg_range *range = &job->ranges[k];
        const size_t at = (size_t)range->at, n = (size_t)range->n;
        store_ends(job, range);
        if (job->values) memcpy((char *)job->Cx + at * value_bytes, (char *)job->values + at * value_bytes, n * value_bytes);
        if (!job->indices) continue;
        if (job->out_itype == job->itype)
            memcpy((char *)job->Cj + at * index_bytes, (char *)job->indices + at * index_bytes, n * index_bytes);
        else /* indices are never narrowed */
            for (size_t p = at; p < at + n; ++p) ((int64_t *)job->Cj)[p] = ((const int32_t *)job->indices)[p];
    }
}

int asp_spgemm_finish(void *handle, int out_itype, void *Cp, void *Cj, void *Cx)
{
    sg_job *job = handle;
    if (!job || out_itype < job->itype) return ASP_BAD_CODE;
    job->out_itype = out_itype, job->Cp = Cp, job->Cj = Cj, job->Cx = Cx;
    memset(Cp, 0, out_itype == ASP_I32 ? 4 : 8);
    const int64_t n_copied = job->values || job->indices ? job->nnz : 0;
    asp_parallel(store, job, job->n_ranges, 1, 16, job->n_threads, (double)(n_copied + job->n_rows));
    asp_spgemm_drop(job);
    return ASP_OK;
}
