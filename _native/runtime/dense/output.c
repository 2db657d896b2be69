/* Allocator for results: freed blocks of 128 KiB or more are kept for the next result of about the same size.
 *
 * A fresh large block costs a page fault per page, which takes as long as the product that fills it. Every block
 * starts with a header, because the size that NumPy passes to free() is not always the requested one. Elements begin
 * 64 bytes later, on a cache line. Any thread may call it, with or without the GIL, and after fork(). The extension module
 * contains it, too: its own allocator serves programs that have not loaded the runtime yet, and keeps no freed block.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE 1
#endif
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "heap_thresholds.h"
#include "huge_pages.h"
#include "output.h"
#include "output_api.h"
#include "platform.h"
#ifdef ASP_HOOKS
#include "hooks.h"
#endif

#ifdef __GLIBC__
#include <malloc.h>
#include <stdatomic.h>
#include <unistd.h>
#endif

#if ASP_HAVE_THREADS
#include <pthread.h>
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static void hold(void) { pthread_mutex_lock(&lock); }
static void release(void) { pthread_mutex_unlock(&lock); }
/* At fork, no other thread may hold the lock, because the child does not have that thread. */
static void install_fork_handlers(void) { pthread_atfork(hold, release, release); }
#else
static void hold(void) {}
static void release(void) {}
#endif

/* Sizes in bytes: smallest block that is kept, smallest blocks on shared and on own huge pages, the header. KEPT_MAX:
 * maximum number of kept blocks per pool. LOOSE: maximum capacity of a reused block over the requested one. */
enum { KEEP_FROM_BYTES = 1 << 17, SHARED_FROM_BYTES = 1 << 18, HUGE_FROM_BYTES = 2 << 20, HEADER = 64, KEPT_MAX = 128,
       LOOSE = 2 };

typedef struct {
    size_t capacity; /* bytes after the header */
    void *base;      /* pointer for free(), or of the mapping */
    size_t mapped;   /* bytes of a mapping of its own; 0 for other blocks */
    area *shared;    /* area of the block; NULL for a block of malloc or with a mapping */
} header;

/* Freed blocks of one kind. */
typedef struct {
    header *kept[KEPT_MAX]; /* oldest first */
    int n_kept;
    int64_t kept_bytes, limit_bytes, n_reused;
} block_pool;

/* Pool of freed results, and pool of packed copies and other work space of tuning. The latter keeps blocks only during
 * tuning. */
static block_pool results, scratch;

static header *header_of(void *elements) { return (header *)((char *)elements - HEADER); }

/* Round a size up to an eighth of a power of two, so that blocks can be reused by results of slightly different
 * shapes. */
static size_t rounded(size_t bytes)
{
    if (bytes < KEEP_FROM_BYTES) return bytes;
    size_t step = KEEP_FROM_BYTES / 8;
    while (step * 16 <= bytes) step *= 2;
    return (bytes + HEADER + step - 1) / step * step - HEADER;
}

static void shrink(block_pool *pool, int64_t bytes, int limits);

/* Return memory for a header and *capacity bytes, or for a header and `bytes` bytes after all kept blocks were freed, whose
 * pages other sizes can use; NULL without memory. */
static void *heap(size_t *capacity, size_t bytes)
{
    void *base = asp_take_aligned(HEADER, *capacity + HEADER);
    if (base) return base;
    shrink(&results, 0, 0);
    shrink(&scratch, 0, 0);
    *capacity = bytes;
    return asp_take_aligned(HEADER, bytes + HEADER);
}

/* Allocate a block of at least `bytes` bytes for a pool; NULL without memory. Blocks share huge pages while the pool keeps
 * freed ones: pages that a block returns to the system are lost to the next block. */
static void *fresh(const block_pool *pool, size_t bytes)
{
    size_t capacity = rounded(bytes), mapped = 0;
    char *base = NULL;
    area *shared = NULL;
    if (capacity < bytes || capacity > SIZE_MAX - 2 * HUGE_PAGE) return NULL;
    if (pool == &results && capacity >= KEEP_FROM_BYTES) asp_raise_heap_thresholds(capacity);
#ifdef __linux__
    if (capacity >= HUGE_FROM_BYTES) {
        const size_t whole = mapped_bytes(bytes + HEADER, capacity + HEADER);
        if ((base = map(whole))) mapped = whole;
    } else if (capacity >= SHARED_FROM_BYTES) {
        hold();
        if (pool->limit_bytes) base = cut(capacity + HEADER, &shared);
        release();
    }
#else
    (void)pool;
#endif
    if (!base && !(base = heap(&capacity, bytes))) return NULL;
    *(header *)base = (header){capacity, base, mapped, shared};
    return base + HEADER;
}

/* Return a block to the system. */
static void discard(header *block)
{
#ifdef __linux__
    if (block->mapped) {
        munmap(block->base, block->mapped);
        return;
    }
    if (block->shared) {
        give_up(block, HEADER + block->capacity, block->shared);
        return;
    }
#endif
    asp_free_aligned(block->base);
}

/* Return the place of the newest kept block of this capacity or, among results, of the smallest one that holds at most
 * LOOSE times as much: sparse products in a loop rarely have the same number of entries twice. -1 if there is none. */
static int best_place(const block_pool *pool, size_t capacity)
{
    const size_t most = pool == &results ? LOOSE * (capacity + HEADER) - HEADER : capacity;
    int best = -1;
    for (int place = pool->n_kept - 1; place >= 0; place--) {
        const size_t held = pool->kept[place]->capacity;
        if (held < capacity || held > most || (best >= 0 && held >= pool->kept[best]->capacity)) continue;
        best = place;
    }
    return best;
}

/* Remove and return a kept block of at least this capacity, or return NULL. */
static header *take(block_pool *pool, size_t capacity)
{
    header *found = NULL;
    hold();
    const int place = best_place(pool, capacity);
    if (place >= 0) {
        found = pool->kept[place];
        pool->n_kept--;
        memmove(pool->kept + place, pool->kept + place + 1, (size_t)(pool->n_kept - place) * sizeof *pool->kept);
        pool->kept_bytes -= (int64_t)found->capacity;
        pool->n_reused++;
    }
    release();
    return found;
}

/* Remove the oldest blocks until `bytes` more fit under the limit; return their number. The lock is held; the caller
 * frees them after releasing it. */
static int evict(block_pool *pool, size_t bytes, header **evicted)
{
    int n = 0;
    while (pool->n_kept > 0 &&
           (pool->kept_bytes + (int64_t)bytes > pool->limit_bytes || (bytes && pool->n_kept == KEPT_MAX))) {
        header *oldest = pool->kept[0];
        pool->n_kept--;
        memmove(pool->kept, pool->kept + 1, (size_t)pool->n_kept * sizeof *pool->kept);
        pool->kept_bytes -= (int64_t)oldest->capacity;
        evicted[n++] = oldest;
    }
    return n;
}

/* Block that the next allocation of this thread receives; NULL if none waits. */
#if ASP_HAVE_THREADS
static _Thread_local void *handed_over;
#else
static void *handed_over;
#endif

static void output_free(void *context, void *elements, size_t bytes);

static void *output_malloc(void *context, size_t bytes)
{
    if (handed_over && context == &results) {
        void *elements = handed_over;
        handed_over = NULL;
        if (header_of(elements)->capacity >= bytes) return elements;
        output_free(context, elements, 0);
    }
    if (bytes >= KEEP_FROM_BYTES) {
        header *block = take(context, rounded(bytes));
        if (block) return (char *)block + HEADER;
    }
    if (context == &scratch && bytes >= HUGE_FROM_BYTES) { /* a packed copy takes the place of those of other sizes */
        const int64_t left_bytes = asp_scratch_kept_bytes() - (int64_t)rounded(bytes);
        shrink(&scratch, left_bytes > 0 ? left_bytes : 0, 0);
    }
    return fresh(context, bytes ? bytes : 1);
}

static void *output_calloc(void *context, size_t n, size_t bytes)
{
    if (bytes && n > SIZE_MAX / bytes) return NULL;
    void *elements = output_malloc(context, n * bytes);
    if (elements) memset(elements, 0, n * bytes);
    return elements;
}

static void output_free(void *context, void *elements, size_t bytes)
{
    (void)bytes;
    if (!elements) return;
    block_pool *pool = context;
    header *block = header_of(elements), *evicted[KEPT_MAX];
    int n_evicted = 0, keep = 0;
    if (block->capacity >= KEEP_FROM_BYTES) {
        hold();
        keep = (int64_t)block->capacity <= pool->limit_bytes;
        if (keep) {
            n_evicted = evict(pool, block->capacity, evicted);
            pool->kept[pool->n_kept++] = block;
            pool->kept_bytes += (int64_t)block->capacity;
        }
        release();
    }
    if (!keep) discard(block);
    for (int i = 0; i < n_evicted; i++) discard(evicted[i]);
}

static void *output_realloc(void *context, void *elements, size_t bytes)
{
    if (!elements) return output_malloc(context, bytes);
    header *block = header_of(elements);
    if (bytes <= block->capacity && bytes >= block->capacity / 2) return elements;
    void *moved = output_malloc(context, bytes);
    if (!moved) return NULL;
    memcpy(moved, elements, bytes < block->capacity ? bytes : block->capacity);
    output_free(context, elements, 0);
    return moved;
}

void asp_output_hand_over(void *elements)
{
    if (!elements) return;
    if (handed_over) output_free(&results, handed_over, 0);
    handed_over = elements;
}

/* Return the block with at least `capacity` bytes, of which the first `used` are kept; NULL without memory. Large blocks
 * are moved by their page tables. */
static header *enlarged(header *block, size_t used, size_t capacity)
{
#ifdef __linux__
    if (block->mapped && capacity < SIZE_MAX - 2 * HUGE_PAGE) {
        const size_t bytes = mapped_bytes(capacity + HEADER, capacity + HEADER);
        char *base = mremap(block->base, block->mapped, bytes, 0);
        if (base == MAP_FAILED) {
            char *place = map(bytes);
            base = place ? mremap(block->base, block->mapped, bytes, MREMAP_MAYMOVE | MREMAP_FIXED, place) : MAP_FAILED;
            if (base == MAP_FAILED && place) munmap(place, bytes);
        }
        if (base != MAP_FAILED) {
            *(header *)base = (header){capacity, base, bytes, NULL};
            return (header *)base;
        }
    }
#endif
    char *moved = fresh(&results, capacity);
    if (!moved) return NULL;
    memcpy(moved, (char *)block + HEADER, used);
    discard(block);
    return header_of(moved);
}

/* Return a block with at least `capacity` bytes for one whose first `used` bytes are kept: a block of an earlier result,
 * to which they are copied, or else the enlarged block; NULL without memory. Fresh pages take longer than the copy, and
 * results that only grow would leave their final blocks to nobody. */
static header *replaced(header *block, size_t used, size_t capacity)
{
    header *kept = capacity > block->capacity ? take(&results, capacity) : NULL;
    if (!kept) return enlarged(block, used, capacity);
    memcpy((char *)kept + HEADER, (char *)block + HEADER, used);
    output_free(&results, (char *)block + HEADER, 0);
    return kept;
}

void *asp_output_resized(void *elements, size_t used, size_t *bytes)
{
    header *block = NULL;
    if (elements) block = replaced(header_of(elements), used, rounded(*bytes));
    else if (*bytes >= KEEP_FROM_BYTES) block = take(&results, rounded(*bytes - *bytes / 10));
    if (!block && !elements) elements = fresh(&results, *bytes ? *bytes : 1);
    else elements = block ? (char *)block + HEADER : NULL;
    if (elements) *bytes = header_of(elements)->capacity;
    return elements;
}

static void *work_take(size_t bytes) { return output_malloc(&results, bytes); }
static void work_give(void *elements, size_t bytes) { output_free(&results, elements, bytes); }
void *asp_output_take_address(void) { return (void *)work_take; }
void *asp_output_give_address(void) { return (void *)work_give; }

/* Free the oldest kept blocks until at most `bytes` remain; if `limits`, that becomes the pool's limit. */
static void shrink(block_pool *pool, int64_t bytes, int limits)
{
    header *evicted[KEPT_MAX];
    hold();
    const int64_t before_bytes = pool->limit_bytes;
    pool->limit_bytes = bytes;
    int n_evicted = evict(pool, 0, evicted);
    if (!limits) pool->limit_bytes = before_bytes;
    release();
    for (int i = 0; i < n_evicted; i++) discard(evicted[i]);
}

void asp_output_limit(int64_t bytes) { shrink(&results, bytes, 1); }
void asp_scratch_limit(int64_t bytes) { shrink(&scratch, bytes, 1); }
void asp_output_trim(int64_t bytes)
{
    shrink(&results, bytes, 0);
#ifdef __GLIBC__
    malloc_trim(0);
#endif
}

/* glibc cuts a surplus of 32 to 128 bytes off both ends of an aligned block. It keeps up to PIECES of each size in a
 * cache of the thread, where free pieces do not merge with their neighbours: once the block is freed, its place is too
 * small for another aligned block of its size. The pieces that are taken first leave this cache, because those that are
 * taken next fill it; malloc merges pieces outside it before its next large block. A heap that does not grow is left as
 * it is: merging enlarges its free end, whose pages malloc then returns to the system. */
void asp_output_merge(void)
{
#ifdef __GLIBC__
    static _Atomic uintptr_t highest; /* largest end of the heap that was seen */
    const uintptr_t end = (uintptr_t)sbrk(0);
    if (end <= atomic_load_explicit(&highest, memory_order_relaxed)) return;
    atomic_store_explicit(&highest, end, memory_order_relaxed);
    enum { PIECES = 7, SMALLEST = 24, LARGEST = 120, STEP = 16 };
    void *volatile taken[2 * PIECES * ((LARGEST - SMALLEST) / STEP + 1)]; /* volatile: the compiler keeps the calls */
    int n = 0;
    for (size_t bytes = SMALLEST; bytes <= LARGEST; bytes += STEP)
        for (int i = 0; i < 2 * PIECES; i++) taken[n++] = malloc(bytes);
    while (n) free(taken[--n]);
#endif
}

int64_t asp_output_kept_bytes(void)
{
    hold();
    const int64_t kept_bytes = results.kept_bytes;
    release();
    return kept_bytes;
}

int64_t asp_scratch_kept_bytes(void)
{
    hold();
    const int64_t kept_bytes = scratch.kept_bytes;
    release();
    return kept_bytes;
}

#ifdef ASP_HOOKS
void asp_output_counters(int64_t *found)
{
    hold();
    found[0] = results.kept_bytes, found[1] = results.n_kept, found[2] = results.n_reused;
    release();
}

int64_t asp_output_mapped(int64_t bytes)
{
#ifdef __linux__
    return (int64_t)mapped_bytes((size_t)bytes + HEADER, rounded((size_t)bytes) + HEADER);
#else
    return bytes;
#endif
}
#endif

const asp_allocator *asp_output_allocator(int is_scratch)
{
    static const asp_allocator allocators[2] = {
        {&results, output_malloc, output_calloc, output_realloc, output_free},
        {&scratch, output_malloc, output_calloc, output_realloc, output_free}};
#if ASP_HAVE_THREADS
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, install_fork_handlers);
#endif
    return &allocators[is_scratch != 0];
}
