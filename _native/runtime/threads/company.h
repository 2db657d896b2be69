/* Detection of concurrent callers (company.c); used by pool.c. */
#include <stdatomic.h>

typedef struct {
    /* thread that called last */
    _Atomic(const void *) caller;        /* the thread that called last */
    /* begin and latest time of the period in which callers alternate, ns; 0: never */
    _Atomic int64_t since_ns, other_ns;
} asp_company;

/* Record a call by the thread `self` (any address unique to the thread) and return whether other threads are calling
 * too. */
int asp_has_company(asp_company *it, const void *self, int64_t now_ns);
