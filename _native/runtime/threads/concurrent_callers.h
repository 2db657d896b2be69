/* Whether several threads call, each for itself; used by pool.c. */
#include <stdatomic.h>

typedef struct {
    _Atomic(const void *) caller;        /* the thread that called last */
    _Atomic int64_t since_ns, other_ns;  /* when callers began to take turns, and did so last */
} asp_concurrent_callers;

/* The thread `self` (any address of its own) calls: whether others are at work beside it. */
int asp_has_concurrent_callers(asp_concurrent_callers *it, const void *self, int64_t now_ns);
