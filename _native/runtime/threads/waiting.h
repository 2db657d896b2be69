/* Spinning time of a helper thread before it blocks; used by pool.c.
 *
 * Programs execute Python code between two products. A helper that is blocked after a gap of 100 us must be woken for
 * the next product, which costs the caller 7 us and arrives 16 to 35 us late. So a helper spins for up to a
 * millisecond if
 * - most recent gaps between jobs were shorter than that,
 * - threads of the process are seldom delayed waiting for a core (run delay in /proc/self/task/TID/schedstat; some 10 us per
 *   wake-up are normal and do not count), and
 * - no control group limits the process's CPU time.
 *
 * Otherwise it spins for LINGER_NS (call_intervals.h).
 */
#include <stdatomic.h>

/* Values of `how`. */
enum { ASP_WAIT_AUTO = 0, ASP_WAIT_ACTIVE = 1, ASP_WAIT_PASSIVE = 2 };
enum { LINGER_LONG_NS = 1150000 }; /* gaps of a millisecond and the Python code around them, ns */

/* State of the rule; the pool's lock protects fields without _Atomic, except those of a check, which `looking`
 * protects. */
typedef struct {
    _Atomic int how;          /* ASP_WAIT_...: mode set by the last call of asp_pool_wait */
    int64_t ended_ns;         /* end of the latest job; written by the caller that holds the pool */
    _Atomic int short_gaps;       /* share of the recent gaps that were below LINGER_LONG_NS, in 1/256 */
    _Atomic int64_t contended_until_ns; /* no long spinning before this time: threads were delayed */
    atomic_flag looking;      /* lock: one thread reads schedstat at a time */
    /* Time of the latest check, the sums of run delays and time slices that it read, and the excess of run delays. */
    int64_t looked_ns, delay_ns, n_slices, excess_ns;
    int64_t hold_ns;          /* duration of the next refusal */
} asp_waiting;

/* Record the gap between the end of the previous job and the job that begins at now_ns. */
void asp_note_gap(asp_waiting *it, int64_t now_ns);
/* Return how long an idle helper spins, ns. */
int64_t asp_linger_ns(asp_waiting *it, int64_t now_ns);
/* Return whether threads of the process were delayed waiting for cores recently. Reads schedstat at most every
 * LOOK_NS. */
int asp_cores_are_wanted(asp_waiting *it, int64_t now_ns);
/* Return the number of CPUs that the CPU-time quota of the process's control group allows, 0 without a quota. Reads the
 * file system once per process (limits.c). */
int asp_quota_cpus(void);
/* Reset gaps and checks, in the child of a fork. */
void asp_forget_waiting(asp_waiting *it);
