/* Detection of concurrent callers: several application threads that call the runtime in the same period. Such threads
 * already occupy the cores, so a helper of one caller would take a core from another.
 *
 * Concurrent callers are recognised by alternating thread identities. A thread that is descheduled, or blocks for the
 * GIL or for a lock of OpenBLAS, is absent for some time slices and then calls again. So the concurrent callers are
 * assumed to remain for as long as they have been observed, at least BESIDE_MIN_NS and at most BESIDE_MAX_NS.
 */
#include "common.h"

#include "concurrent_callers.h"
#include "hooks.h"

/* Bounds of the time for which concurrent callers are assumed to remain after the last alternation, ns. */
enum { BESIDE_MIN_NS = 20000000, BESIDE_MAX_NS = 500000000 };

int asp_has_concurrent_callers(asp_concurrent_callers *it, const void *self, int64_t now_ns)
{
    const void *last = atomic_exchange_explicit(&it->caller, self, memory_order_relaxed);
    const int64_t other_ns = atomic_load_explicit(&it->other_ns, memory_order_relaxed);
    const int64_t beside_ns = other_ns - atomic_load_explicit(&it->since_ns, memory_order_relaxed);
    const int64_t assumed_ns = asp_min(beside_ns > BESIDE_MIN_NS ? beside_ns : BESIDE_MIN_NS, BESIDE_MAX_NS);
    const int is_over = !other_ns || now_ns - other_ns >= assumed_ns;
    if (!last || last == self) return !is_over;
    if (is_over) atomic_store_explicit(&it->since_ns, now_ns, memory_order_relaxed);
    atomic_store_explicit(&it->other_ns, now_ns, memory_order_relaxed);
    return 1;
}

#ifdef ASP_HOOKS
int64_t asp_concurrent_calls(const int64_t *callers, const int64_t *now_ns, int64_t n)
{
    asp_concurrent_callers it = {0};
    int64_t n_had = 0;
    for (int64_t i = 0; i < n; i++) n_had += asp_has_concurrent_callers(&it, (const void *)(uintptr_t)callers[i], now_ns[i]);
    return n_had;
}
#endif
