/* Update of the values of a packed copy on several threads, with an unchanged structure. */
#include "common.h"

#include "pool_api.h"
#include "refill_api.h"

#define REFILL_ENTRY_NS 0.8 /* rough time per entry on one thread; decides whether helper threads are woken */
/* Minimum entries per range; kinds of index arrays. */
enum { REFILL_PIECE = 4096, NO_INDEX = 0, INDEX_32 = 1, INDEX_64 = 2 };

/* A value of 16 bytes. */
typedef struct {
    uint64_t low, high;
} pair;

/* Arguments of refill_some. */
typedef struct {
    const void *from, *to, *src;
    void *dst;
    int64_t begin;
    int value_bytes, from_kind, to_kind;
} refill;

/* Return the position of entry e in an index array of this kind. */
ASP_INLINE int64_t place(int kind, const void *index, int64_t e)
{
    return kind == NO_INDEX ? e : kind == INDEX_32 ? ((const int32_t *)index)[e] : ((const int64_t *)index)[e];
}

/* Define one loop for each pair of kinds, which are constants in it. */
#define MOVE(TYPE, FROM, TO)                                                                            \
    for (int64_t e = begin; e < end; e++)                                                               \
        ((TYPE *)job->dst)[place(TO, job->to, e)] = ((const TYPE *)job->src)[place(FROM, job->from, e)]
#define MOVE_TO(TYPE, FROM)                         \
    switch (job->to_kind) {                         \
    case NO_INDEX: MOVE(TYPE, FROM, NO_INDEX); break; \
    case INDEX_32: MOVE(TYPE, FROM, INDEX_32); break; \
    default: MOVE(TYPE, FROM, INDEX_64);            \
    }
#define REFILL(TYPE)                                                             \
    static void refill_##TYPE(const refill *job, int64_t begin, int64_t end)     \
    {                                                                            \
        switch (job->from_kind) {                                                \
        case NO_INDEX: MOVE_TO(TYPE, NO_INDEX) break;                            \
        case INDEX_32: MOVE_TO(TYPE, INDEX_32) break;                            \
        default: MOVE_TO(TYPE, INDEX_64)                                         \
        }                                                                        \
    }
REFILL(uint8_t)
REFILL(uint16_t)
REFILL(uint32_t)
REFILL(uint64_t)
REFILL(pair)

/* Pool task: move the entries [begin, end), counted from job->begin. */
static void refill_some(void *context, int64_t begin, int64_t end)
{
    const refill *job = context;
    begin += job->begin;
    end += job->begin;
    switch (job->value_bytes) {
    case 1: refill_uint8_t(job, begin, end); break;
    case 2: refill_uint16_t(job, begin, end); break;
    case 4: refill_uint32_t(job, begin, end); break;
    case 8: refill_uint64_t(job, begin, end); break;
    default: refill_pair(job, begin, end);
    }
}

static int kind_of(const void *index, int type) { return !index ? NO_INDEX : type == ASP_I32 ? INDEX_32 : INDEX_64; }

int asp_refill(int value_bytes, int from_type, const void *from, int to_type, const void *to, const void *src, void *dst,
               int64_t begin, int64_t end, int n_threads)
{
    refill job = {from, to, src, dst, begin, value_bytes, kind_of(from, from_type), kind_of(to, to_type)};
    if (value_bytes != 1 && value_bytes != 2 && value_bytes != 4 && value_bytes != 8 && value_bytes != 16) return -1;
    asp_parallel(refill_some, &job, end - begin, REFILL_PIECE, end - begin, n_threads,
                 REFILL_ENTRY_NS * (double)(end - begin));
    return 0;
}

int asp_places(const double *found, int64_t n_found, int64_t n, int to_type, void *to)
{
    int64_t n_taken = 0, n_elsewhere = 0;
    for (int64_t at = 0; at < n_found; at++) {
        const int64_t e = (int64_t)found[at] - 1;
        if (e < 0) continue;
        if (e >= n) return -1; /* several entries share the position */
        n_taken++;
        n_elsewhere += e != at;
        if (to_type == ASP_I32) ((int32_t *)to)[e] = (int32_t)at;
        else ((int64_t *)to)[e] = at;
    }
    return n_taken < n ? -1 : n_elsewhere == 0;
}
