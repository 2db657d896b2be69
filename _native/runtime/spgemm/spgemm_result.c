/* Memory of a sparse matrix product while it is computed.
 *
 * A range of rows is computed into chunks that fit a core's own cache. Ranges begin in the order of rows, so few of them
 * are unfinished at any time. A thread that finishes a range places all ranges whose predecessors are finished, and
 * copies them to the product. Their chunks then serve the next ranges. So the pages that a product touches are little
 * more than those of its result, which matters because fresh pages cost as much as the multiplications.
 *
 * The number of entries is not known before the last range. The blocks of the result are allocated by an estimate from
 * the first ranges, and grow if that was too low. Memory that is allocated beyond the last entry is never touched.
 */
#include "spgemm.h"

#include "output.h"
#include "output_api.h"

#if ASP_HAVE_THREADS
#include <sched.h>
#endif

enum { CHUNK_BYTES = (1 << 19) - 64 };         /* least size of a chunk; blocks of the allocator have 64 bytes more */
enum { CHUNK_HEADER = 64 };                    /* bytes before the first entry */
enum { BEHIND = 2 };                           /* ranges per thread that may wait in chunks of CHUNK_BYTES for one before */
/* Result's values, in bytes, and capacity per entry, from which a block is cut to its size: the first rows were longer. */
enum { TRIM_FROM_BYTES = 1 << 26, TRIM_RATIO = 4 };
static const double MARGIN = 1.25;             /* allocated over estimated entries */

void *sg_take_pages(size_t bytes) { return ((void *(*)(size_t))asp_output_take_address())(bytes ? bytes : 1); }
void sg_give_pages(void *block, size_t bytes)
{
    if (block) ((void (*)(void *, size_t))asp_output_give_address())(block, bytes);
}

/* -- chunks -------------------------------------------------------------------------------------------------------- */

int sg_n_spare_chunks(const sg_job *job) { return 2 * job->n_threads; }

/* Keep a chunk for the next range, or free it where all slots are full. */
static void give_chunk(sg_job *job, sg_chunk *chunk)
{
    for (int k = 0; chunk && k < sg_n_spare_chunks(job); ++k) {
        sg_chunk *empty = NULL;
        if (atomic_compare_exchange_strong(&job->spare_chunks[k], &empty, chunk)) return;
    }
    if (chunk) sg_give_pages(chunk, chunk->bytes);
}

/* Take a chunk of at least n entries that no range is using; NULL if there is none. */
static sg_chunk *take_chunk(sg_job *job, int64_t n)
{
    for (int k = 0; k < sg_n_spare_chunks(job); ++k) {
        sg_chunk *found = atomic_exchange(&job->spare_chunks[k], NULL);
        if (found && found->capacity >= n) return found;
        give_chunk(job, found);
    }
    return NULL;
}

/* Return a chunk of at least n entries and `least` bytes; NULL without memory. */
static sg_chunk *new_chunk(sg_job *job, int64_t n, size_t least)
{
    const size_t entry = job->index_bytes + job->kind->value_bytes;
    const size_t needed = CHUNK_HEADER + (size_t)(n + 3) * entry, bytes = needed > least ? needed : least;
    sg_chunk *chunk = sg_take_pages(bytes);
    if (!chunk) return NULL;
    *chunk = (sg_chunk){.bytes = bytes, .capacity = (int64_t)((bytes - CHUNK_HEADER) / entry) & ~(int64_t)3}; /* aligns values */
    atomic_fetch_add(&job->private_bytes, (int64_t)bytes);
    return chunk;
}

static char *indices_of(const sg_chunk *chunk) { return (char *)chunk + CHUNK_HEADER; }
static char *values_of(const sg_job *job, const sg_chunk *chunk)
{
    return indices_of(chunk) + (size_t)chunk->capacity * job->index_bytes;
}

sg_chunk *sg_open(sg_job *job, sg_space *space, int64_t n)
{
    sg_chunk *chunk = take_chunk(job, n);
    if (!chunk && !(chunk = new_chunk(job, n, CHUNK_BYTES))) return NULL;
    chunk->next = NULL, chunk->n = 0; /* a spare one has its former values */
    if (space->chunk) space->chunk->next = chunk;
    else space->first = chunk;
    space->chunk = chunk;
    space->j = indices_of(chunk), space->x = values_of(job, chunk);
    space->room = chunk->capacity;
    return chunk;
}

static void drop_list(sg_chunk *chunk)
{
    for (sg_chunk *next; chunk; chunk = next) {
        next = chunk->next;
        sg_give_pages(chunk, chunk->bytes);
    }
}

void sg_drop_chunks(sg_job *job)
{
    for (int64_t k = 0; job->ranges && k < job->n_ranges; ++k) drop_list(job->ranges[k].chunks), job->ranges[k].chunks = NULL;
    for (int k = 0; job->spare_chunks && k < sg_n_spare_chunks(job); ++k) {
        sg_chunk *chunk = atomic_exchange(&job->spare_chunks[k], NULL);
        if (chunk) sg_give_pages(chunk, chunk->bytes);
    }
    for (int s = 0; job->spaces && s < atomic_load(&job->n_spaces); ++s) drop_list(job->spaces[s].first), job->spaces[s].first = NULL;
}

/* -- moving ranges to the product ------------------------------------------------------------------------------------ */

/* Wait until no thread copies to the product. The lock is held, so that none begins to. */
static void wait_for_copies(sg_job *job)
{
    while (atomic_load(&job->n_copying)) {
#if ASP_HAVE_THREADS
        sched_yield();
#endif
    }
}

/* Allocate or enlarge both blocks for `entries` entries, of which the first `n` are kept; return 0 without memory. */
static int resize(sg_job *job, int64_t n, int64_t entries)
{
    const size_t index = job->index_bytes, value = job->kind->value_bytes;
    size_t index_bytes = (size_t)entries * index, value_bytes = (size_t)entries * value;
    void *indices = asp_output_resized(job->indices, (size_t)n * index, &index_bytes);
    if (indices) job->indices = indices;
    void *values = indices ? asp_output_resized(job->values, (size_t)n * value, &value_bytes) : NULL;
    if (!values) return 0;
    job->values = values;
    job->capacity = asp_min((int64_t)(index_bytes / index), (int64_t)(value_bytes / value));
    return 1;
}

/* Ensure room for the entries of the first n_ranges ranges, and by an estimate for those that follow. The lock is held.
 * Returns 0 without memory. */
static int reserve(sg_job *job, int64_t entries, int64_t n_ranges)
{
    if (entries <= job->capacity) return 1;
    wait_for_copies(job);
    const double share = (double)n_ranges / (double)job->n_ranges;
    const double expected = n_ranges == job->n_ranges ? (double)entries : MARGIN * (double)entries / share;
    if (resize(job, job->nnz, asp_max(entries, (int64_t)expected)) && job->capacity >= entries) return 1;
    if (resize(job, job->nnz, entries + entries / 2) && job->capacity >= entries) return 1;
    return resize(job, job->nnz, entries) && job->capacity >= entries;
}

/* Copy a range to a chunk of its size, because it has to wait: a thread before it is delayed. Without memory it stays. */
static void pack(sg_job *job, sg_range *range)
{
    const size_t index = job->index_bytes, value = job->kind->value_bytes;
    sg_chunk *packed = range->chunks ? new_chunk(job, range->n, 0) : NULL;
    if (!packed) return;
    for (sg_chunk *chunk = range->chunks, *next; chunk; chunk = next) {
        next = chunk->next;
        memcpy(indices_of(packed) + (size_t)packed->n * index, indices_of(chunk), (size_t)chunk->n * index);
        memcpy(values_of(job, packed) + (size_t)packed->n * value, values_of(job, chunk), (size_t)chunk->n * value);
        packed->n += chunk->n;
        give_chunk(job, chunk);
    }
    range->chunks = packed;
}

/* Copy the entries of a range to the product and keep its chunks for the next ranges. */
static void copy_range(sg_job *job, sg_range *range)
{
    const size_t index = job->index_bytes, value = job->kind->value_bytes;
    int64_t at = range->at;
    for (sg_chunk *chunk = range->chunks, *next; chunk; chunk = next) {
        next = chunk->next;
        if (chunk->n) { /* without entries there are no arrays, and memcpy must not be given NULL */
            memcpy((char *)job->indices + (size_t)at * index, indices_of(chunk), (size_t)chunk->n * index);
            memcpy((char *)job->values + (size_t)at * value, values_of(job, chunk), (size_t)chunk->n * value);
        }
        at += chunk->n;
        if (chunk->bytes >= CHUNK_BYTES) give_chunk(job, chunk);
        else sg_give_pages(chunk, chunk->bytes);
    }
    range->chunks = NULL;
}

/* Return whether range k exists and is computed. */
static int is_computed(const sg_job *job, int64_t k)
{
    return k < job->n_ranges && atomic_load(&job->ranges[k].is_computed);
}

void sg_trim_result(sg_job *job)
{
    const int64_t bytes = job->capacity * (int64_t)job->kind->value_bytes;
    if (bytes > TRIM_FROM_BYTES && job->capacity / TRIM_RATIO > job->nnz) resize(job, job->nnz, job->nnz);
}

int sg_finish_range(sg_job *job, sg_space *space, int64_t k)
{
    sg_range *range = &job->ranges[k];
    range->chunks = space->first;
    for (const sg_chunk *chunk = space->first; chunk; chunk = chunk->next) range->n += chunk->n;
    space->first = space->chunk = NULL, space->room = 0;
    if (k - atomic_load(&job->n_placed) > BEHIND * job->n_threads) pack(job, range);
    atomic_store(&range->is_computed, 1);
    /* A thread that finds the lock taken leaves its range to the holder, who looks again after releasing the lock. */
    while (is_computed(job, atomic_load(&job->n_placed)) && !atomic_flag_test_and_set(&job->is_placing)) {
        const int64_t first = atomic_load(&job->n_placed);
        int64_t end = first, entries = job->nnz;
        for (; is_computed(job, end); ++end) job->ranges[end].at = entries, entries += job->ranges[end].n;
        const int fits = reserve(job, entries, end);
        if (fits) {
            job->nnz = entries;
            atomic_fetch_add(&job->n_copying, 1);
            atomic_store(&job->n_placed, end);
        }
        atomic_flag_clear(&job->is_placing);
        if (!fits) return 0;
        for (int64_t placed = first; placed < end; ++placed) copy_range(job, &job->ranges[placed]);
        atomic_fetch_sub(&job->n_copying, 1);
    }
    return 1;
}
