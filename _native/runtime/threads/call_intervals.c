/* Whether a job that comes again and again is better shared, by what happens as the program runs.
 *
 * What sharing costs does not end with the job. The operand that the caller has just written is fetched from its core,
 * the part of the result that a helper wrote is fetched back by what the program does next, and the helper was woken:
 * where that is much of a short job, one thread is faster although the job itself lasts longer (measured: a step of
 * Runge and Kutta with 22,500 rows 0.18 ms on two threads, 0.15 on one; the product alone 0.04 and 0.07 ms). So cycles
 * are compared, from one beginning of the job to the next, whatever the program does between.
 *
 * A trial has four blocks of cycles: as now, the other way, the other way, as now. Medians are compared, because programs
 * do something else every now and then. Trials become rare where they find nothing new.
 *
 * Helpers fall asleep while a trial keeps the job from them, and a short job alone does not wake them (pool.c): so the first
 * call after that wakes them, calls until they have had time to arrive do not count, and a trial in which a later call that
 * was to be shared found none is dropped. Before, such trials compared one thread with one thread, and a noise of 3 %
 * kept products on it that are twice as fast on two; and where calls are shorter than helpers take to arrive, every
 * trial was dropped, so that what stayed alone once stayed so for good.
 */
#include "common.h"

#include "call_intervals.h"
#include "hooks.h"
#include "pool_api.h"

enum { INTERVAL_SLOTS = 64 };
enum { TRIAL_FIRST = 48, TRIAL_LOOPS = 512, TRIAL_REST = 512, TRIAL_REST_MAX = 4096 }; /* calls */
enum { ALONE_CALLS = 40, ALONE_NS = 100000000 }; /* a decision for one thread is tried again after both have passed */
enum { INTERVAL_MAX = 32 };   /* in a cycle so many times as long as its job the way matters little */
enum { INTERVAL_MARGIN = 32 }; /* the other way must save this part of the cycle */

static int is_other_way(int step)
{
    const int block = step / BLOCK_CALLS;
    return block == 1 || block == 2;
}

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

static void end_trial(asp_call_interval *it, int is_changed, int64_t lasted_ns)
{
    it->usual_ns = it->judged_ns = lasted_ns;
    it->is_alone ^= is_changed;
    it->rest_next = is_changed ? TRIAL_REST : 2 * it->rest_next;
    if (it->rest_next > TRIAL_REST_MAX) it->rest_next = TRIAL_REST_MAX;
    it->rest = it->rest_next;
    if (it->is_alone) it->rest = (int)asp_min(it->rest, asp_max(ALONE_CALLS, ALONE_NS / asp_max(lasted_ns, 1)));
    it->step = it->n[0] = it->n[1] = 0;
}

static int is_settling(const asp_call_interval *it) { return it->begin_ns - it->woken_ns < WAKE_NS; }

/* One more call of the trial; whether it goes the other way. */
static int try_other_way(asp_call_interval *it, int64_t lasted_ns)
{
    if (it->step > 0 && is_settling(it)) return is_other_way(it->step - 1);
    if (it->step > 0 && (it->step - 1) % BLOCK_CALLS >= BLOCK_SKIPPED) {
        const int other = is_other_way(it->step - 1);
        it->lasted_ns[other][it->n[other]++] = lasted_ns;
    }
    if (it->step == 2 * BLOCK_CALLS || it->step == TRIAL_BLOCKS * BLOCK_CALLS) {
        const int64_t now = median_ns(it->lasted_ns[0], it->n[0]), other = median_ns(it->lasted_ns[1], it->n[1]);
        const int is_clear = it->step == TRIAL_BLOCKS * BLOCK_CALLS || other > now + now / 8;
        if (is_clear) {
            const int is_changed = other < now - now / INTERVAL_MARGIN;
            end_trial(it, is_changed, is_changed ? other : now);
            return 0;
        }
    }
    return is_other_way(it->step++);
}

/* Another part of the program, whose cycles are of another length, is soon tried for itself. */
static void note_interval(asp_call_interval *it, int64_t lasted_ns)
{
    if (it->step > 0) return;
    if (!it->usual_ns) it->usual_ns = it->judged_ns = lasted_ns;
    it->usual_ns += (asp_min(lasted_ns, 2 * it->usual_ns) - it->usual_ns) / 16;
    const int is_other = 2 * it->usual_ns > 3 * it->judged_ns || 3 * it->usual_ns < 2 * it->judged_ns;
    if (is_other && it->rest > TRIAL_FIRST) {
        it->judged_ns = it->usual_ns;
        it->rest = TRIAL_FIRST;
    }
}

static int is_to_stay(asp_call_interval *it, int64_t now_ns)
{
    if (!it->begin_ns) it->begin_ns = now_ns;
    const int64_t lasted_ns = now_ns - it->begin_ns;
    it->begin_ns = now_ns;
    note_interval(it, lasted_ns);
    if (it->rest > 0 && --it->rest > 0) return it->is_alone;
    if (it->step == 0) { /* a trial is due */
        if (lasted_ns / INTERVAL_MAX > it->own_ns) {
            it->rest = TRIAL_REST;
            return it->is_alone;
        }
        if (it->rest_next == TRIAL_REST / 2 && it->own_ns > lasted_ns - lasted_ns / 4) { /* nearly nothing between */
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
    it->step = it->n[0] = it->n[1] = 0;
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

static asp_call_interval as_new(uint64_t key) { return (asp_call_interval){.key = key, .rest = TRIAL_FIRST, .rest_next = TRIAL_REST / 2}; }

static _Thread_local int is_unwatched;
void asp_pool_tune_call_intervals(int on) { is_unwatched = !on; }

asp_call_interval *asp_watched(const void *task, int64_t n_items, int n_threads)
{
    static asp_call_interval known[INTERVAL_SLOTS];
    uint64_t key = (uint64_t)(uintptr_t)task * 0x9e3779b97f4a7c15u ^ (uint64_t)n_items * 0xc2b2ae3d27d4eb4fu;
    key ^= (uint64_t)n_threads << 32;
    key = (key ^ key >> 29) | 1; /* 0: a place that is free */
    asp_call_interval *it = &known[key / 2 % INTERVAL_SLOTS];
    if (is_unwatched) return NULL;
    if (it->key != key) *it = as_new(key);
    return it;
}

#ifdef ASP_HOOKS
int64_t asp_intervals_alone(const int64_t *shared_ns, const int64_t *alone_ns, int64_t n, int64_t own_ns, int64_t n_asleep,
                         int64_t wake_ns)
{
    asp_call_interval it = as_new(1);
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
