/* Spinning time of helper threads before they block (waiting.h). */
#include "common.h"

#include "call_intervals.h"
#include "hooks.h"
#include "pool_api.h"
#include "waiting.h"

#if ASP_HAVE_THREADS

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

enum { LOOK_NS = 10000000 };                             /* minimum time between two reads of schedstat */
/* Bounds of the time for which a check that found delayed threads forbids long spinning. */
enum { HOLD_FIRST_NS = 50000000, HOLD_MAX_NS = 1000000000 };
/* Run delays above 1/32 of the elapsed time add to an excess, others reduce it. Threads count as delayed when it is
 * above EXCESS_NS. A service that takes a core for 1 to 4 ms twice a second does not end spinning. With a bound on each
 * check, SpMV of 60,000 entries after pauses of 0.3 ms ran on one thread in up to half of the calls. */
enum { DELAY_PART = 32, EXCESS_NS = 4000000 };
enum { WAKE_DELAY_NS = 100000 }; /* delays below this per time slice do not count: an ordinary wake-up takes less */
/* Share of recent gaps that were short: fixed-point 1.0, the threshold of long spinning, and the smoothing of the
 * running mean. */
enum { SHORT_GAP_UNIT = 256, SHORT_GAPS_ENOUGH = 128, SHORT_GAP_STEP = 8 };
/* Number of threads that are inspected: a process with more counts as having delayed threads. */
enum { TASKS_MAX = 128 };

void asp_note_gap(asp_waiting *it, int64_t now_ns)
{
    const int is_short = it->ended_ns && now_ns - it->ended_ns < LINGER_LONG_NS;
    const int short_gaps = atomic_load_explicit(&it->short_gaps, memory_order_relaxed);
    const int next = short_gaps + ((is_short ? SHORT_GAP_UNIT : 0) - short_gaps) / SHORT_GAP_STEP;
    atomic_store_explicit(&it->short_gaps, next, memory_order_relaxed);
}

static int64_t linger_ns(asp_waiting *it, int64_t now_ns, int is_limited)
/* Return the time a helper spins, ns; `is_limited`: a control group limits CPU time. */
{
    const int how = atomic_load_explicit(&it->how, memory_order_relaxed);
    if (how == ASP_WAIT_PASSIVE) return 0;
    if (how == ASP_WAIT_ACTIVE) return LINGER_LONG_NS;
    const int is_short = atomic_load_explicit(&it->short_gaps, memory_order_relaxed) >= SHORT_GAPS_ENOUGH;
    const int is_free = now_ns >= atomic_load_explicit(&it->contended_until_ns, memory_order_relaxed);
    return is_short && is_free && !is_limited ? LINGER_LONG_NS : LINGER_NS;
}

int64_t asp_linger_ns(asp_waiting *it, int64_t now_ns) { return linger_ns(it, now_ns, asp_quota_cpus() > 0); }

/* Return the total time in ns that all threads of this process have been runnable without a core, or -1 if unknown;
 * store the number of their time slices in *n_slices. */
static int64_t run_delay_ns(int64_t *n_slices)
{
    DIR *tasks = opendir("/proc/self/task");
    int64_t total_ns = 0;
    int n = 0;
    *n_slices = 0;
    if (!tasks) return -1;
    for (struct dirent *task; (task = readdir(tasks));) {
        char name[300], text[96];
        if (task->d_name[0] == '.') continue;
        if (++n > TASKS_MAX || snprintf(name, sizeof name, "/proc/self/task/%s/schedstat", task->d_name) < 0) {
            total_ns = -1;
            break;
        }
        const int file = open(name, O_RDONLY | O_CLOEXEC);
        if (file < 0) continue; /* the thread has ended */
        const ssize_t size = read(file, text, sizeof text - 1);
        close(file);
        long long ran_ns, waited_ns, began;
        text[size > 0 ? size : 0] = 0;
        if (sscanf(text, "%lld %lld %lld", &ran_ns, &waited_ns, &began) == 3) total_ns += waited_ns, *n_slices += began;
    }
    closedir(tasks);
    return n ? total_ns : -1;
}

/* Decide whether threads are delayed, from run delays and time slices read at now_ns; 1 forbids long spinning. Calls
 * no clock, so that tests can pass times. */
static int judge(asp_waiting *it, int64_t delay_ns, int64_t n_slices, int64_t now_ns)
{
    const int64_t passed_ns = now_ns - it->looked_ns, waited_ns = delay_ns - it->delay_ns;
    const int64_t counted_ns = waited_ns > (n_slices - it->n_slices) * WAKE_DELAY_NS ? waited_ns : 0;
    const int is_first = !it->looked_ns, is_known = delay_ns >= 0;
    const int64_t excess_ns = is_first ? 0 : it->excess_ns + counted_ns - passed_ns / DELAY_PART;
    it->looked_ns = now_ns;
    it->delay_ns = delay_ns;
    it->n_slices = n_slices;
    it->excess_ns = asp_min(asp_max(excess_ns, 0), EXCESS_NS);
    if (is_known && excess_ns <= EXCESS_NS) {
        it->hold_ns = asp_max(it->hold_ns - it->hold_ns / 4, HOLD_FIRST_NS);
        return 0;
    }
    atomic_store_explicit(&it->contended_until_ns, now_ns + asp_max(it->hold_ns, HOLD_FIRST_NS), memory_order_relaxed);
    it->hold_ns = asp_min(2 * asp_max(it->hold_ns, HOLD_FIRST_NS), HOLD_MAX_NS);
    return 1;
}

int asp_cores_are_wanted(asp_waiting *it, int64_t now_ns)
{
    if (atomic_load_explicit(&it->how, memory_order_relaxed) == ASP_WAIT_ACTIVE) return 0;
    if (atomic_flag_test_and_set_explicit(&it->looking, memory_order_acquire)) return 0; /* another helper checks */
    int is_wanted = now_ns < atomic_load_explicit(&it->contended_until_ns, memory_order_relaxed);
    if (!is_wanted && now_ns - it->looked_ns >= LOOK_NS) {
        int64_t n_slices;
        const int64_t delay_ns = run_delay_ns(&n_slices);
        is_wanted = judge(it, delay_ns, n_slices, now_ns);
    }
    atomic_flag_clear_explicit(&it->looking, memory_order_release);
    return is_wanted;
}

void asp_forget_waiting(asp_waiting *it)
{
    atomic_store(&it->short_gaps, 0);
    atomic_store(&it->contended_until_ns, 0);
    atomic_flag_clear(&it->looking);
    it->ended_ns = it->looked_ns = it->delay_ns = it->n_slices = it->excess_ns = it->hold_ns = 0;
}

#ifdef ASP_HOOKS
int64_t asp_linger_after(const int64_t *begins_ns, const int64_t *ends_ns, int64_t n, int how, int is_limited)
{
    asp_waiting it = {.how = how, .looking = ATOMIC_FLAG_INIT};
    for (int64_t i = 0; i < n; i++) {
        asp_note_gap(&it, begins_ns[i]);
        it.ended_ns = ends_ns[i];
    }
    return linger_ns(&it, n ? ends_ns[n - 1] : 0, is_limited);
}

int64_t asp_looks_that_refuse(const int64_t *delays_ns, const int64_t *n_slices, int64_t n, int64_t step_ns)
{
    asp_waiting it = {.looking = ATOMIC_FLAG_INIT};
    int64_t n_refused = 0;
    for (int64_t i = 0; i < n; i++) {
        const int64_t now_ns = (i + 1) * step_ns;
        n_refused += now_ns < it.contended_until_ns || judge(&it, delays_ns[i], n_slices[i], now_ns);
    }
    return n_refused;
}
#endif

#endif
