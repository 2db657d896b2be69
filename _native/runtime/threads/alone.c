/* The thread pool's interface for systems without POSIX threads: the caller computes everything. */
#include "common.h"

#include "hooks.h"
#include "pool_api.h"

#if !ASP_HAVE_THREADS

int asp_parallel(asp_task task, void *context, int64_t n_items, int64_t min_items, int64_t max_items, int n_threads,
                 double serial_ns)
{
    (void)min_items, (void)max_items, (void)n_threads, (void)serial_ns;
    if (n_items > 0) task(context, 0, n_items);
    return 0;
}
void asp_after_fork(void) {}
void asp_pool_wait(int how) { (void)how; }
int asp_pool_is_contended(void) { return 0; }
int64_t asp_pool_caution_left_ns(void) { return 0; }
#ifdef ASP_HOOKS
void asp_force_helpers(int on) { (void)on; }
int asp_was_forked(void) { return 0; }
void asp_pool_counters(int64_t *found) { found[0] = found[1] = found[2] = 0; }
#endif

void *asp_parallel_address(void) { return (void *)(uintptr_t)asp_parallel; }

#endif
