/* Structure of triangles: positions of the diagonal, levels, and schedules. */
#include "claims.h"

enum { ROWS_OF_CHUNK = 4096 };
enum { ROW_WORK = 4 };           /* work of a row beyond its entries */
enum { SERIAL_WORK = 4096 };     /* maximum work of a level that one thread runs with its neighbours */
enum { CHUNK_WORK = 1024 };      /* minimum work of a chunk of a shared level */
enum { CHUNKS_OF_LEVEL = 64 };   /* maximum number of chunks of a shared level, except where rows are long */
#define ROW_NS 4.0               /* per row, one thread */

typedef struct {
    int64_t n;
    const void *indptr, *indices;
    void *lower_stop, *upper_start;
    _Atomic int64_t unsorted, left, right, missing;
} splitting;

typedef struct {
    asp_claims claims;
    const asp_triangle *triangle;
    _Atomic int32_t *level;
    _Atomic int32_t highest;
} leveling;

#define BODY "triangles_body.h"
#include "each_index.h"

int asp_triangle_split(int itype, int64_t n, const void *indptr, const void *indices, void *lower_stop, void *upper_start,
                       int64_t *facts, int n_threads)
{
    splitting it = {.n = n, .indptr = indptr, .indices = indices, .lower_stop = lower_stop, .upper_start = upper_start,
                    .missing = n};
    const asp_task task = itype == ASP_I32 ? split_int32 : split_int64;
    const int64_t n_chunks = (n + ROWS_OF_CHUNK - 1) / ROWS_OF_CHUNK;
    const double entries = (double)(n ? asp_index_at(itype, indptr, n) : 0);
    asp_parallel(task, &it, n_chunks, 1, 8, n_threads, ROW_NS * (double)n + entries);
    facts[0] = !it.unsorted;
    facts[1] = it.left;
    facts[2] = it.right;
    facts[3] = it.missing < n ? it.missing : -1;
    return ASP_OK;
}

int asp_triangle_take(int itype, int item_bytes, int64_t n, const void *start, const void *stop, const void *indices,
                      const void *data, void *indptr, void *out_indices, void *out_data)
{
    ASP_BY_INDEX(itype, take, item_bytes, n, start, stop, indices, data, indptr, out_indices, out_data);
    return ASP_OK;
}

int64_t asp_triangle_levels(const asp_triangle *triangle, int32_t *level)
{
    leveling it = {.triangle = triangle, .level = (_Atomic int32_t *)level};
    const int64_t n_chunks = (triangle->n + ROWS_OF_CHUNK - 1) / ROWS_OF_CHUNK;
    const asp_task task = triangle->itype == ASP_I32 ? level_int32 : level_int64;
    asp_parallel(task, &it, n_chunks, 1, 1, triangle->n_threads, 2 * ROW_NS * (double)triangle->n);
    return it.highest;
}

int asp_triangle_schedule(const asp_triangle *triangle, const int32_t *level, int64_t n_levels, void *order, int64_t *chunks,
                          int32_t *stage_of, int64_t *counts)
{
    return ASP_BY_INDEX(triangle->itype, schedule, triangle, level, n_levels, order, chunks, stage_of, counts);
}
