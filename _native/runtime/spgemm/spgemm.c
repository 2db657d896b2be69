/* Sparse times sparse matrix by rows, in one numeric pass on several threads. Three ways to accumulate a row compete
 * (spgemm_costs.c); they give the same entries in the same order.
 *
 * SciPy computes the sizes of all rows in a first pass, which takes a third of the product's time. Here each thread
 * appends rows to chunks of its own memory, and rows are copied to their final positions when all sizes are known.
 * Chunks and accumulators reuse pages that earlier results freed (output.c), because fresh pages cost a page fault
 * each. Consecutive rows of A with identical columns, common in systems with several unknowns per node, are computed
 * together.
 */
#include "spgemm.h"

#include "output_api.h"
#include "pool_api.h"
#include "spgemm_api.h"

enum { RANGE_WORK = 1 << 17, MIN_WORK = 1 << 12 };   /* target and minimum of multiplications per range of rows */
enum { CHUNK_MIN = 1 << 20, CHUNK_MAX = 1 << 25 };  /* bounds of a chunk's size, bytes */
enum { CACHED_BYTES = 1 << 20 };                       /* B up to this size is not prefetched */
enum { THREADS_MAX = 256 };                           /* maximum number of threads, each with its own workspace */
/* Estimated time per multiplication and per row or entry of A on one thread. */
static const double NS_PER_MULTIPLICATION = 3.0, NS_PER_ITEM = 8.0;

/* Take and return pages of the output allocator. */
static void *take_pages(size_t bytes) { return ((void *(*)(size_t))asp_output_take_address())(bytes ? bytes : 1); }
static void give_pages(void *block, size_t bytes)
{
    if (block) ((void (*)(void *, size_t))asp_output_give_address())(block, bytes);
}

/* -- memory of a thread -------------------------------------------------------------------------------------------- */

/* Memory for entries of the product, used by one thread. */
struct sg_chunk {
    sg_chunk *next;
    size_t bytes;
    int64_t capacity;           /* entries: all column indices, followed by all values */
    _Atomic int64_t n_uncopied; /* segments that are not copied out yet */
};
enum { CHUNK_HEADER = 64 };

/* Start a chunk with room for at least n entries; sizes double up to CHUNK_MAX. Returns 0 without memory. */
static int new_chunk(const sg_job *job, sg_space *space, int64_t n)
{
    const size_t entry = job->index_bytes + job->kind->value_bytes;
    size_t bytes = CHUNK_MIN - CHUNK_HEADER; /* blocks of the allocator have a header of their own */
    if (space->chunks) bytes = space->chunks->bytes * 2 < CHUNK_MAX ? space->chunks->bytes * 2 : CHUNK_MAX;
    if (bytes < CHUNK_HEADER + (size_t)n * entry) bytes = CHUNK_HEADER + (size_t)n * entry;
    sg_chunk *chunk = take_pages(bytes);
    if (!chunk) return 0;
    *chunk = (sg_chunk){space->chunks, bytes, (int64_t)((bytes - CHUNK_HEADER) / entry), 0};
    if (job->index_bytes < job->kind->value_bytes) chunk->capacity &= ~(int64_t)3; /* keeps values aligned */
    space->chunks = chunk;
    space->j = (char *)chunk + CHUNK_HEADER;
    space->x = space->j + (size_t)chunk->capacity * job->index_bytes;
    space->room = chunk->capacity;
    return 1;
}

/* Append an empty segment that begins at `row` and the current write position. */
static sg_segment *new_segment(sg_space *space, int64_t row)
{
    if (space->n_segments == space->max_segments) {
        const int64_t most = space->max_segments ? 2 * space->max_segments : 64;
        sg_segment *larger = realloc(space->segments, (size_t)most * sizeof *larger);
        if (!larger) return NULL;
        space->segments = larger, space->max_segments = most;
    }
    sg_segment *segment = &space->segments[space->n_segments++];
    *segment = (sg_segment){.row = row, .row_end = row, .j = space->j, .x = space->x, .chunk = space->chunks};
    ++space->chunks->n_uncopied;
    return segment;
}

sg_segment *sg_open(const sg_job *job, sg_space *space, int64_t row, int64_t n)
{
    if (space->n_segments) {
        sg_segment *last = &space->segments[space->n_segments - 1];
        if (n <= space->room && last->row_end == row && last->n < SG_SEGMENT_ENTRIES) return last;
    }
    if (n > space->room && !new_chunk(job, space, n)) return NULL;
    return new_segment(space, row);
}

int sg_reserve_sums(const sg_job *job, sg_space *space, int64_t n)
{
    if (n <= space->max_sums) return 1;
    const int64_t most = asp_max(n, 2 * space->max_sums);
    free(space->sums); /* earlier rows need no sums */
    space->sums = malloc((size_t)most * SG_LANES * job->kind->value_bytes);
    space->max_sums = space->sums ? most : 0;
    return space->sums != NULL;
}

int sg_reserve_merged(sg_space *space, size_t n)
{
    if (n <= space->merged_bytes) return 1;
    free(space->merged); /* earlier rows need nothing of it */
    space->merged_bytes = 2 * n;
    space->merged = malloc(space->merged_bytes);
    if (!space->merged) space->merged_bytes = 0;
    return space->merged != NULL;
}

static size_t cells_bytes(const sg_job *job) { return ((size_t)job->n_cols + 1) * job->kind->cell_bytes; }
static size_t touched_bytes(const sg_job *job) { return ((size_t)job->n_cols + 1) * job->index_bytes; }

int sg_reserve_cells(const sg_job *job, sg_space *space)
{
    if (space->cells) return 1;
    space->cells = take_pages(cells_bytes(job));
    if (!space->cells) return 0;
    memset(space->cells, 0, cells_bytes(job)); /* stamps start at 0, which is no row's stamp */
    return 1;
}

/* Create the workspace of one more thread; NULL without memory. */
static sg_space *new_space(sg_job *job)
{
    sg_space *space = &job->spaces[atomic_fetch_add(&job->n_spaces, 1)];
    space->touched = take_pages(touched_bytes(job));
    if (!space->touched || !new_chunk(job, space, 0)) return NULL;
    return space;
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

/* Free the accumulators of a workspace; the chunks with the product remain. */
static void drop_work(const sg_job *job, sg_space *space)
{
    give_pages(space->cells, cells_bytes(job)), give_pages(space->touched, touched_bytes(job));
    free(space->sums), free(space->table), free(space->merged);
    space->cells = space->touched = space->sums = space->table = NULL, space->merged = NULL;
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

/* Pool task: compute the rows that begin in the items [begin, end). */
static void multiply(void *context, int64_t begin, int64_t end)
{
    sg_job *job = context;
    const int64_t row = row_at(job, begin), row_end = row_at(job, end);
    if (row >= row_end || atomic_load(&job->failed)) return;
    sg_space *space = take_space(job);
    if (!space || !job->kind->rows(job, space, row, row_end)) atomic_store(&job->failed, 1);
    if (space) give_space(job, space);
}

static int by_row(const void *left, const void *right)
{
    const int64_t a = ((const sg_segment *)left)->row, b = ((const sg_segment *)right)->row;
    return (a > b) - (a < b);
}

/* Sort the segments of all workspaces by row and compute the position of each in the product. */
static int gather_segments(sg_job *job)
{
    const int n_spaces = atomic_load(&job->n_spaces);
    for (int s = 0; s < n_spaces; ++s) job->n_segments += job->spaces[s].n_segments;
    job->segments = malloc(((size_t)job->n_segments + 1) * sizeof *job->segments);
    if (!job->segments) return 0;
    sg_segment *end = job->segments;
    for (int s = 0; s < n_spaces; ++s) {
        if (job->spaces[s].n_segments)
            memcpy(end, job->spaces[s].segments, (size_t)job->spaces[s].n_segments * sizeof *end);
        end += job->spaces[s].n_segments;
    }
    qsort(job->segments, (size_t)job->n_segments, sizeof *job->segments, by_row);
    for (int64_t s = 0; s < job->n_segments; ++s) job->segments[s].at = job->nnz, job->nnz += job->segments[s].n;
    return 1;
}

/* Compute the product into chunks; return 0 without memory. */
static int run(sg_job *job)
{
    job->row_nnz = take_pages((size_t)job->n_rows * job->index_bytes);
    job->b_same = calloc((size_t)job->n_inner + 1, sizeof *job->b_same);
    job->b_order = calloc((size_t)job->n_inner + 1, sizeof *job->b_order);
    job->spaces = calloc((size_t)job->n_threads, sizeof *job->spaces);
    job->spare = calloc((size_t)job->n_threads, sizeof *job->spare);
    if (!job->row_nnz || !job->b_same || !job->b_order || !job->spaces || !job->spare) return 0;
    sg_estimate(job);
    const int64_t n_items = job->n_rows + job->a_nnz;
    const double per_item = 1 + (double)job->b_nnz / (double)asp_max(job->n_inner, 1);
    job->far = (double)job->b_nnz * (double)(job->index_bytes + job->kind->value_bytes) > CACHED_BYTES;
    asp_parallel(multiply, job, n_items, asp_max(1, (int64_t)(MIN_WORK / per_item)),
                 asp_max(1, (int64_t)(RANGE_WORK / per_item)), job->n_threads,
                 (NS_PER_ITEM + NS_PER_MULTIPLICATION * per_item) * (double)n_items);
    return !atomic_load(&job->failed) && gather_segments(job);
}

void asp_spgemm_drop(void *handle)
{
    sg_job *job = handle;
    if (!job) return;
    for (int s = 0; job->spaces && s < atomic_load(&job->n_spaces); ++s) {
        sg_space *space = &job->spaces[s];
        drop_work(job, space);
        for (sg_chunk *chunk = space->chunks, *next; chunk; chunk = next) {
            next = chunk->next;
            give_pages(chunk, chunk->bytes);
        }
        free(space->segments);
    }
    give_pages(job->row_nnz, (size_t)job->n_rows * job->index_bytes);
    free((void *)job->b_same), free((void *)job->b_order), free(job->spaces), free(job->spare), free(job->segments), free(job);
}

void *asp_spgemm_begin(int dtype, int itype, const int64_t *shape, const void *Ap, const void *Aj, const void *Ax,
                       const void *Bp, const void *Bj, const void *Bx, int n_threads, int solver, int64_t *nnz)
{
    if (dtype < 0 || dtype > 3 || itype < 0 || itype > 1 || solver < 0 || solver >= SG_N_SOLVERS) return NULL;
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
    for (int s = 0; s < atomic_load(&job->n_spaces); ++s) drop_work(job, &job->spaces[s]);
    *nnz = job->nnz;
    return job;
}

/* -- copying out --------------------------------------------------------------------------------------------------- */

/* Copy a segment's column indices to the result, widening them to int64 if requested. */
static void store_indices(const sg_job *job, const sg_segment *segment)
{
    if (job->out_itype == job->itype) {
        memcpy((char *)job->Cj + (size_t)segment->at * job->index_bytes, segment->j,
               (size_t)segment->n * job->index_bytes);
        return;
    }
    int64_t *to = (int64_t *)job->Cj + segment->at;
    for (int64_t p = 0; p < segment->n; ++p) to[p] = ((const int32_t *)segment->j)[p]; /* indices are never narrowed */
}

/* Write the segment's part of indptr. */
static void store_ends(const sg_job *job, const sg_segment *segment)
{
    int64_t end = segment->at;
    for (int64_t i = segment->row; i < segment->row_end; ++i) {
        end += asp_index_at(job->itype, job->row_nnz, i);
        if (job->out_itype == ASP_I32) ((int32_t *)job->Cp)[i + 1] = (int32_t)end;
        else ((int64_t *)job->Cp)[i + 1] = end;
    }
}

/* Pool task: copy the segments [begin, end) to the result and free chunks that are completely copied. */
static void copy(void *context, int64_t begin, int64_t end)
{
    sg_job *job = context;
    const size_t value_bytes = job->kind->value_bytes;
    for (int64_t s = begin; s < end; ++s) {
        const sg_segment *segment = &job->segments[s];
        store_indices(job, segment);
        memcpy((char *)job->Cx + (size_t)segment->at * value_bytes, segment->x, (size_t)segment->n * value_bytes);
        store_ends(job, segment);
        /* Free pages at once, so that the product and its copy are never in memory together. */
        if (atomic_fetch_sub(&segment->chunk->n_uncopied, 1) == 1) give_pages(segment->chunk, segment->chunk->bytes);
    }
}

/* Free chunks without segments; each other chunk is freed by the thread that copies its last segment. */
static void hand_over_chunks(sg_job *job)
{
    for (int s = 0; s < atomic_load(&job->n_spaces); ++s) {
        for (sg_chunk *chunk = job->spaces[s].chunks, *next; chunk; chunk = next) {
            next = chunk->next;
            if (!atomic_load(&chunk->n_uncopied)) give_pages(chunk, chunk->bytes);
        }
        job->spaces[s].chunks = NULL;
    }
}

int asp_spgemm_finish(void *handle, int out_itype, void *Cp, void *Cj, void *Cx)
{
    sg_job *job = handle;
    if (!job || out_itype < job->itype) return ASP_BAD_CODE;
    job->out_itype = out_itype, job->Cp = Cp, job->Cj = Cj, job->Cx = Cx;
    memset(Cp, 0, out_itype == ASP_I32 ? 4 : 8);
    hand_over_chunks(job);
    asp_parallel(copy, job, job->n_segments, 1, 4, job->n_threads, (double)(job->nnz + job->n_rows));
    asp_spgemm_drop(job);
    return ASP_OK;
}
