/* How long a helper waits awake for the next job; used by pool.c.
 *
 * Programs put Python code between two products. A helper that sleeps through 100 us of it must be woken for the next
 * product, which costs the caller 7 us and comes 16 to 35 us late. So a helper stays awake for up to a millisecond where
 * - most of the latest gaps between jobs were that short, so that waiting is likely to be answered,
 * - no thread of the process waits for a core (the run delay in /proc/self/task/TID/schedstat; a thread that is woken
 *   waits some 10 us for it each time, which does not count), and
 * - no control group limits the process's CPU time.
 * Elsewhere it stays awake for LINGER_NS (call_intervals.h). */
#include <stdatomic.h>

enum { ASP_WAIT_AUTO = 0, ASP_WAIT_ACTIVE = 1, ASP_WAIT_PASSIVE = 2 };
enum { LINGER_LONG_NS = 1150000 }; /* pauses of a millisecond, and the Python code around them */

typedef struct {
    _Atomic int how;          /* ASP_WAIT_...: what the last caller asked for */
    int64_t ended_ns;         /* end of the latest job; written by the caller that holds the pool */
    _Atomic int short_gaps;       /* share of the latest gaps that were below LINGER_LONG_NS, in 1/256 */
    _Atomic int64_t contended_until_ns; /* threads waited for cores: no long waiting before this */
    atomic_flag looking;      /* one thread reads schedstat at a time */
    int64_t looked_ns, delay_ns, n_slices; /* the latest look; the sums of run delays and of time slices that it found */
    int64_t hold_ns;          /* how long the next refusal lasts */
} asp_waiting;

/* The next job begins: count the gap since the end of the one before. */
void asp_note_gap(asp_waiting *it, int64_t now_ns);
/* How long a helper that has nothing to do stays awake, ns. */
int64_t asp_linger_ns(asp_waiting *it, int64_t now_ns);
/* Return whether threads of the process have waited for cores lately. Reads schedstat at most every LOOK_NS. */
int asp_cores_are_wanted(asp_waiting *it, int64_t now_ns);
/* Forget gaps and looks, in the child of a fork. */
void asp_forget_waiting(asp_waiting *it);
