/* Detection of concurrent callers (concurrent_callers.c); used by pool.c. */
#include <stdatomic.h>

/* State of the detection. Zero-initialised; all fields may be read and written concurrently. */
typedef struct {
    _Atomic(const void *) caller;        /* thread that called last */
    _Atomic int64_t since_ns, other_ns;  /* begin and latest time of the period of alternating callers, ns; 0: never */
} asp_concurrent_callers;

/* Record a call by the thread `self` (any address unique to the thread) and return whether other threads are calling
 * too. */
int asp_has_concurrent_callers(asp_concurrent_callers *it, const void *self, int64_t now_ns);
