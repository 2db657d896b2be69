/* Stages of a schedule on the pool's threads. */
#include "claims.h"

typedef struct {
    asp_claims claims;
    const asp_triangle *triangle;
    asp_row_run run;
    void *context;
    _Atomic int32_t *left; /* chunks of each stage that are not finished */
} staged;

static void run_claimed(staged *it)
{
    const asp_triangle *triangle = it->triangle;
    const int64_t *chunks = (const int64_t *)triangle->chunks;
    const int64_t chunk = atomic_fetch_add_explicit(&it->claims.next, 1, memory_order_relaxed);
    const int32_t stage = ((const int32_t *)triangle->stage_of)[chunk];
    if (stage > 0)
        for (int turn = 0; atomic_load_explicit(&it->left[stage - 1], memory_order_acquire) > 0; turn++) asp_pause(turn);
    it->run(it->context, chunks[chunk], chunks[chunk + 1]);
    atomic_fetch_sub_explicit(&it->left[stage], 1, memory_order_release);
}

static void run_claims(void *context, int64_t begin, int64_t end)
{
    for (int64_t chunk = begin; chunk < end; chunk++) run_claimed(context);
}

int asp_run_stages(const asp_triangle *triangle, asp_row_run run, void *context, double serial_ns)
{
    if (!triangle->order || triangle->n_threads < 2) {
        run(context, 0, triangle->n);
        return ASP_OK;
    }
    const int32_t *stage_of = (const int32_t *)triangle->stage_of;
    staged it = {.triangle = triangle, .run = run, .context = context};
    it.left = calloc((size_t)triangle->n_stages + 1, sizeof *it.left);
    if (!it.left) return ASP_NO_MEMORY;
    for (int64_t chunk = 0; chunk < triangle->n_chunks; chunk++)
        atomic_fetch_add_explicit(&it.left[stage_of[chunk]], 1, memory_order_relaxed);
    asp_parallel(run_claims, &it, triangle->n_chunks, 1, 1, triangle->n_threads, serial_ns);
    free((void *)it.left);
    return ASP_OK;
}
