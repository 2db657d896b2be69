/* Call-interval tuner: decides, while the program runs, whether a recurring short job is faster on several threads or
 * on the calling thread alone.
 *
 * Sharing has costs after the job's end. The operand just written by the caller is fetched from its core, the helper's
 * part of the result is fetched back by the code that follows, and the helper was woken. Where these costs exceed the
 * gain, one thread is faster for the program although the job itself lasts longer. Measured: one Runge-Kutta step with
 * 22,500 rows takes 0.18 ms on two threads and 0.15 ms on one; its product alone takes 0.04 and 0.07 ms. So the tuner
 * compares intervals from one call of the job to the next, including whatever the program does between.
 *
 * A trial has four blocks of calls: current mode, other mode, other mode, current mode. Medians are compared, because
 * programs occasionally do something else between calls. The interval between trials doubles after each trial that
 * changes nothing. A trial begins when two calls on one thread are affordable, and ends when calls in the other mode
 * have cost 1/TRIAL_PART of the time since the trial before. Jobs longer than TRIED_NS are not tried: sharing costs
 * them a wake-up and at most the content of one core's own cache, which is little beside their duration.
 *
 * Helpers fall asleep while a trial keeps the job on one thread, and short jobs do not wake them (pool.c). So the
 * first shared call afterwards wakes them, and calls before their expected arrival do not count. A trial is dropped
 * when a later call that should be shared finds no helper: it would compare one thread with one thread.
 */
#include "common.h"

#include "call_intervals.h"
#include "hooks.h"
#include "pool_api.h"

/* Number of jobs that are watched; a hash table without collision chains. */
enum { INTERVAL_SLOTS = 64 };
/* Calls before the first trial, before the next trial of a job with almost nothing between its calls, after a trial
 * that changed the mode, and the upper bound of that number. */
enum { TRIAL_FIRST = 48, TRIAL_LOOPS = 512, TRIAL_REST = 512, TRIAL_REST_MAX = 4096 }; /* calls */
enum { ALONE_CALLS = 40, ALONE_NS = 100000000 }; /* re-try "one thread" after both have passed */
enum { INTERVAL_MAX = 32 };   /* intervals longer than this many job durations are not tried: the mode hardly matters */
enum { TRIED_NS = 1500000 };  /* shared jobs that last longer are not tried */
enum { TRIAL_PART = 64 };     /* a trial may cost 1/64 of the time since the trial before, and one interval */
enum { INTERVAL_MARGIN = 32 }; /* the other mode must be faster by 1/32 of the interval to be adopted */

/* Return whether call number `step` of a trial belongs to one of the two middle blocks. */
static int is_other_way(int step)
{
    const int block = step / BLOCK_CALLS;
    return block == 1 || block == 2;
}

/* Return the median of n values. */
static int64_t median_ns(const int64_t *given, int n)
{
    int64_t sorted[TRIAL_BLOCKS / 2 * BLOCK_INTERVALS];
    for (int i = 0; i < n; i++) {
        int at = i;
        for (; at > 0 && sorted[at - 1] > given[i]; at--) sorted[at] = sorted[at - 1];
        sorted[at] = given[i];
    }
    return sorted[n / 2];
}

/* Drop the trial and the time since the trial before. */
static void forget_trial(asp_call_interval *it)
{
    it->step = it->n[0] = it->n[1] = it->n_other = 0;
    it->since_ns = 0;
}

/* End the trial: adopt the other mode if `is_changed`, and schedule the next trial. lasted_ns is the median interval
 * of the mode that remains. */
static void end_trial(asp_call_interval *it, int is_changed, int64_t lasted_ns)
{
    it->usual_ns = it->judged_ns = lasted_ns;
    it->is_alone ^= is_changed;
    it->rest_next = is_changed ? TRIAL_REST : 2 * it->rest_next;
    if (it->rest_next > TRIAL_REST_MAX) it->rest_next = TRIAL_REST_MAX;
    it->rest = it->rest_next;
    if (it->is_alone) it->rest = (int)asp_min(it->rest, asp_max(ALONE_CALLS, ALONE_NS / asp_max(lasted_ns, 1)));
    forget_trial(it);
}

/* Return whether calls in the other mode, at the shortest of their intervals, have cost more than a trial may. The
 * first call after the switch alone decides nothing. */
static int is_costly(const asp_call_interval *it)
{
    if (it->n_other < 2) return 0;
    const int64_t now = median_ns(it->lasted_ns[0], it->n[0]);
    return it->n_other * (it->other_ns - now) > asp_min(it->since_ns / TRIAL_PART, now);
}

/* Return whether helpers were woken so recently that they may not have arrived. */
static int is_settling(const asp_call_interval *it) { return it->begin_ns - it->woken_ns < WAKE_NS; }

/* Record the interval of the previous call of the trial and return whether this call uses the other mode. Ends the
 * trial after its last block, or earlier if it is too costly. */
static int try_other_way(asp_call_interval *it, int64_t lasted_ns)
{
    if (it->step > 0 && is_settling(it)) return is_other_way(it->step - 1);
    if (it->step > 0) {
        const int other = is_other_way(it->step - 1);
        if (other) it->other_ns = it->n_other++ ? asp_min(it->other_ns, lasted_ns) : lasted_ns;
        if ((it->step - 1) % BLOCK_CALLS >= BLOCK_SKIPPED) it->lasted_ns[other][it->n[other]++] = lasted_ns;
    }
    const int is_complete = it->step == TRIAL_BLOCKS * BLOCK_CALLS;
    if (is_complete || is_costly(it)) {
        const int64_t now = median_ns(it->lasted_ns[0], it->n[0]);
        const int64_t other = is_complete ? median_ns(it->lasted_ns[1], it->n[1]) : now;
        const int is_changed = other < now - now / INTERVAL_MARGIN;
        end_trial(it, is_changed, is_changed ? other : now);
        return 0;
    }
    return is_other_way(it->step++);
}

/* Update the usual interval. If it departs from the interval of the latest trial by a factor of 1.5, another part of
 * the program is calling, and the next trial is moved forward. */
static void note_interval(asp_call_interval *it, int64_t lasted_ns)
{
    if (it->step > 0) return;
    if (!it->usual_ns) it->usual_ns = it->judged_ns = lasted_ns;
    const int64_t counted_ns = asp_min(lasted_ns, 2 * it->usual_ns);
    it->since_ns += counted_ns;
    it->usual_ns += (counted_ns - it->usual_ns) / 16;
    const int is_other = 2 * it->usual_ns > 3 * it->judged_ns || 3 * it->usual_ns < 2 * it->judged_ns;
    if (is_other && it->rest > TRIAL_FIRST) {
        it->judged_ns = it->usual_ns;
        it->rest = TRIAL_FIRST;
    }
}

/* Return whether the job that begins now stays on the calling thread. Starts, continues or ends a trial. */
static int is_to_stay(asp_call_interval *it, int64_t now_ns)
{
    if (!it->begin_ns) it->begin_ns = now_ns;
    const int64_t lasted_ns = now_ns - it->begin_ns;
    it->begin_ns = now_ns;
    note_interval(it, lasted_ns);
    if (it->rest > 0 && --it->rest > 0) return it->is_alone;
    if (it->step == 0) { /* a trial is due */
        if (lasted_ns / INTERVAL_MAX > it->own_ns || (!it->is_alone && it->own_ns > TRIED_NS)) {
            it->rest = TRIAL_REST;
            return it->is_alone;
        }
        if (!it->is_alone && it->since_ns < 2 * TRIAL_PART * asp_max(it->serial_ns - it->own_ns, 0)) return 0;
        if (it->rest_next == TRIAL_REST / 2 && it->own_ns > lasted_ns - lasted_ns / 4) { /* nearly no time between calls */
            it->rest_next = TRIAL_REST;
            it->rest = TRIAL_LOOPS;
            return it->is_alone;
        }
    }
    const int is_other = try_other_way(it, lasted_ns); /* may end the trial */
    return it->is_alone ^ is_other;
}

int asp_stays_alone(asp_call_interval *it, int64_t now_ns)
{
    const int stays = is_to_stay(it, now_ns);
    it->is_waking = it->was_alone && !stays;
    if (it->is_waking) it->woken_ns = now_ns;
    it->was_alone = stays;
    return stays;
}

void asp_found_no_helper(asp_call_interval *it)
{
    if (it->step == 0 || is_settling(it)) return;
    forget_trial(it);
    it->rest = TRIAL_FIRST;
}

int asp_wakes_for_next(asp_succession *it, int64_t now_ns, int64_t serial_ns, int64_t linger_ns, int is_awake)
{
    const int64_t lasted_ns = now_ns - it->began_ns;
    it->began_ns = now_ns;
    if (is_awake) it->rest = it->rest_next = 0;
    if (is_awake || lasted_ns > linger_ns + serial_ns || --it->rest > 0) return 0;
    it->rest = it->rest_next = it->rest_next > 0 ? (int)asp_min(2 * it->rest_next, LINGER_REST_MAX) : 1;
    return 1;
}

int64_t asp_mean_arrival(int64_t mean_ns, int64_t took_ns)
{
    return mean_ns + (asp_min(took_ns, 2 * asp_max(mean_ns, ARRIVAL_FIRST_NS)) - mean_ns) / 8;
}

/* Return the initial state of a job: shared, first trial after TRIAL_FIRST calls. */
static asp_call_interval as_new(uint64_t key) { return (asp_call_interval){.key = key, .rest = TRIAL_FIRST, .rest_next = TRIAL_REST / 2}; }

/* Set while this thread's jobs are not watched (asp_pool_tune_call_intervals). */
static _Thread_local int is_unwatched;
void asp_pool_tune_call_intervals(int on) { is_unwatched = !on; }

asp_call_interval *asp_watched(uintptr_t task, int64_t n_items, int n_threads, int64_t serial_ns)
{
    static asp_call_interval known[INTERVAL_SLOTS];
    uint64_t key = (uint64_t)task * 0x9e3779b97f4a7c15u ^ (uint64_t)n_items * 0xc2b2ae3d27d4eb4fu;
    const uint64_t octave = 63 - __builtin_clzll((uint64_t)serial_ns | 1); /* a new matrix per product is one job */
    key ^= (uint64_t)n_threads << 32 ^ octave * 0x165667b19e3779f9u;
    key = (key ^ key >> 29) | 1; /* 0 marks a free slot */
    asp_call_interval *it = &known[key / 2 % INTERVAL_SLOTS];
    if (is_unwatched) return NULL;
    if (it->key != key) *it = as_new(key);
    it->serial_ns = serial_ns;
    return it;
}

#ifdef ASP_HOOKS
int asp_are_one_job(int64_t n_items, int n_threads, int64_t serial_ns, int64_t other_serial_ns)
{
    const uint64_t key = asp_watched(1, n_items, n_threads, serial_ns)->key;
    return asp_watched(1, n_items, n_threads, other_serial_ns)->key == key;
}

int64_t asp_arrival_after(int64_t mean_ns, const int64_t *took_ns, int64_t n)
{
    for (int64_t i = 0; i < n; i++) mean_ns = asp_mean_arrival(mean_ns, took_ns[i]);
    return mean_ns;
}

int64_t asp_intervals_alone(const int64_t *shared_ns, const int64_t *alone_ns, int64_t n, int64_t own_ns, int64_t n_asleep,
                         int64_t wake_ns)
{
    asp_call_interval it = as_new(1);
    it.serial_ns = 2 * own_ns;
    int64_t now_ns = WAKE_NS, n_alone = 0, asleep = 0, awake_ns = 0;
    for (int64_t i = 0; i < n; i++) {
        const int stays = asp_stays_alone(&it, now_ns);
        if (it.is_waking) asleep = 0, awake_ns = now_ns + wake_ns;
        const int is_alone = stays || asleep > 0 || now_ns < awake_ns;
        asleep = stays ? n_asleep : asleep > 0 ? asleep - 1 : 0;
        if (!stays && is_alone && !it.is_waking) asp_found_no_helper(&it);
        if (!is_alone) it.own_ns = own_ns;
        n_alone += is_alone;
        now_ns += is_alone ? alone_ns[i] : shared_ns[i];
    }
    return n_alone;
}
#endif
