/* Threads that call at the same time, each for itself: the cores are theirs already, and a helper would take one from them.
 *
 * They are told by taking turns. A thread that waits for its core, for Python's lock or for a lock of OpenBLAS stays away
 * for some time slices and comes back; a helper of its neighbour would take its core when it does. So company is believed
 * to be there still for as long as it was there, within limits.
 */
#include "common.h"

#include "concurrent_callers.h"
#include "hooks.h"

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
