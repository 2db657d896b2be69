/* Thread pool for short jobs: the calling thread and helpers, which coexist with the threads of other libraries.
 *
 * The caller opens a gate and starts working at once. Helpers that are awake, or wake in time, pass the gate and take
 * ranges from shared counters. When no range is left, the caller closes the gate and waits only for helpers inside. A
 * helper that arrives late finds the gate closed, so it costs no more than the system call that woke it.
 *
 * Spinning until the next job pays only if that job comes soon and no other thread needs the core. OpenBLAS's workers
 * spin for 50 ms after each call; a helper that spins beside them delays the caller's next BLAS call. So a helper spins
 * (up to LINGER_NS) only if a job came when it last did so, and else blocks at once. Where gaps between jobs are short
 * and no thread of the process is delayed by another, a helper spins longer, across Python code (waiting.h).
 * A blocked helper is woken within 16 us beside a spinning thread and within 35 us on an idle core (measured), but
 * often on the caller's own core, so helpers are kept off it (placing.h). Jobs shorter than the mean arrival time of
 * helpers stay on the calling thread, and so do jobs whose program is slower with helpers (call_intervals.c).
 */
#include "common.h"

#include "hooks.h"
#include "pool_api.h"

#if ASP_HAVE_THREADS

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>

#include "wakeup.h"
#include "concurrent_callers.h"
#include "call_intervals.h"
#include "placing.h"
#include "team.h"
#include "waiting.h"

enum { MAX_HELPERS = 255 };
enum { WAKEUP_NS = 7000 };          /* cost of signalling the event for the caller */
enum { SPIN_WORTH_NS = 7000 };    /* serial time from which a helper that is awake pays off */
enum { SHARE_WORTH_NS = 6000 };   /* minimum serial time per further helper */
enum { TEAMMATE_WORTH_NS = 1000 };/* minimum serial time per thread of a host's team; measured on two threads only */
enum { STALL_NS = 250000 };       /* delay of one job that only a descheduled thread explains */
/* After a stall, jobs below SMALL_JOB_NS stay on the caller for PENALTY_FIRST_NS, doubling up to PENALTY_MAX_NS. */
enum { PENALTY_FIRST_NS = 4000000, PENALTY_MAX_NS = 1000000000, SMALL_JOB_NS = 3000000 };

/* The gate packs generation (32 bits) | open (1) | helpers wanted (15) | helpers inside (16) into one atomic word. */
#define GATE_OPEN ((uint64_t)1 << 31)
#define GATE_WANTED(gate) (((gate) >> 16) & 0x7fff)
#define GATE_INSIDE(gate) ((gate) & 0xffff)
#define GATE_GENERATION(gate) ((uint32_t)((gate) >> 32))

/* Fields without _Atomic belong to the thread that holds the lock `taken`; helpers inside the gate read the job. */
static struct {
    _Alignas(128) _Atomic uint64_t gate;
    struct {
        _Alignas(128) _Atomic int64_t next;
    } shares[MAX_HELPERS + 1]; /* next item of each thread's share of the job, on separate cache lines */
    _Alignas(128) asp_task task;
    void *context;
    int64_t n_items, min_items, max_items;
    int n_sharing;
    wakeup wakeup; /* helpers block on it */
    _Atomic int is_for_next; /* helpers were woken for later jobs: one too late for this job spins for the next */
    _Alignas(128) _Atomic int64_t opened_ns, arrived_ns; /* begin of the job, arrival of its first helper (0: none) */
    _Alignas(128) atomic_flag taken; /* lock: one job at a time; a concurrent caller works alone */
    int n_helpers;
    asp_placing placing;
    pthread_t helpers[MAX_HELPERS];
    int64_t arrival_ns, penalty_ns; /* mean arrival time of woken helpers; length of the restriction after a stall */
    asp_succession jobs;
    asp_waiting waiting; /* how long helpers spin */
    _Atomic int64_t cautious_until_ns; /* end of the restriction to one thread after a stall; read without the lock */
    asp_concurrent_callers callers;
    int64_t n_shared, n_held_back, n_stalls; /* see asp_pool_counters */
    int forked;
} pool = {.taken = ATOMIC_FLAG_INIT, .arrival_ns = ARRIVAL_FIRST_NS};

ASP_FORCIBLE(forced_helpers, asp_force_helpers)
#define CAUTIOUS_UNTIL_NS atomic_load_explicit(&pool.cautious_until_ns, memory_order_relaxed)
#define IS_RECKLESS (ASP_FORCED(forced_helpers) > 0)

/* Process one share in ranges of half of what remains, within [min_items, max_items], so that threads end together. */
static void take_share(int share)
{
    const int64_t end = pool.n_items * (share + 1) / pool.n_sharing, least = pool.min_items, most = pool.max_items;
    _Atomic int64_t *next = &pool.shares[share].next;
    int64_t begin = atomic_load_explicit(next, memory_order_relaxed);
    while (begin < end) {
        int64_t size = (end - begin) / 2;
        size = size > most ? most : size;
        size = size < least ? least : size;
        int64_t stop = end - begin > size ? begin + size : end;
        if (!atomic_compare_exchange_weak_explicit(next, &begin, stop, memory_order_acq_rel, memory_order_relaxed))
            continue;
        pool.task(pool.context, begin, stop);
        begin = atomic_load_explicit(next, memory_order_relaxed);
    }
}

/* Process the thread's own share, whose operands stay in its core's caches between jobs (3x), then the others'. */
static void take_ranges(int self)
{
    for (int turn = 0; turn < pool.n_sharing; turn++) take_share((self + turn) % pool.n_sharing);
}

static void open_shares(int n_sharing)
{
    pool.n_sharing = n_sharing;
    for (int share = 0; share < n_sharing; share++)
        atomic_store_explicit(&pool.shares[share].next, pool.n_items * share / n_sharing, memory_order_relaxed);
}

/* Join the open job unless its generation is *served; return this helper's number in it, from 1, or 0 without a job. */
static int pass_gate(uint32_t *served)
{
    uint64_t gate = atomic_load_explicit(&pool.gate, memory_order_acquire);
    while ((gate & GATE_OPEN) && GATE_GENERATION(gate) != *served && GATE_INSIDE(gate) < GATE_WANTED(gate)) {
        if (atomic_compare_exchange_weak(&pool.gate, &gate, gate + 1)) {
            *served = GATE_GENERATION(gate);
            return 1 + (int)GATE_INSIDE(gate) % (pool.n_sharing - 1);
        }
    }
    return 0;
}

typedef struct {
    int rest, rest_next; /* jobs until a helper spins again, and their number after the next vain attempt */
} lingering;

/* Spin until a job opens; return this helper's number in it, or 0 after the limit or if others need the core. */
static int linger(uint32_t *served, lingering *it)
{
    const int64_t begin_ns = asp_now_ns(), limit_ns = asp_linger_ns(&pool.waiting, begin_ns);
    if (limit_ns <= 0) return 0;
    if (limit_ns <= LINGER_NS && it->rest > 0) {
        it->rest--;
        return 0;
    }
    int64_t now_ns = begin_ns;
    int is_looked = limit_ns <= LINGER_NS;
    do {
        for (int turn = 0; turn < 32; turn++) {
            const int self = pass_gate(served);
            if (self) {
                it->rest_next = 1;
                return self;
            }
            asp_relax();
        }
        now_ns = asp_now_ns();
        if (!is_looked && now_ns - begin_ns > LINGER_NS) {
            is_looked = 1;
            if (asp_cores_are_wanted(&pool.waiting, now_ns)) break;
        }
    } while (now_ns - begin_ns < limit_ns);
    it->rest = it->rest_next;
    it->rest_next = it->rest_next < LINGER_REST_MAX ? 2 * it->rest_next : LINGER_REST_MAX;
    return 0;
}

/* Block until the next signal, unless a job is open that this helper has not served. */
static void sleep_unless_open(uint32_t served)
{
    uint32_t seen = atomic_load(&pool.wakeup.count);
    atomic_fetch_add(&pool.wakeup.n_sleeping, 1);
    uint64_t gate = atomic_load(&pool.gate); /* after n_sleeping: this thread sees the job or its caller this thread */
    if (!(gate & GATE_OPEN) || GATE_GENERATION(gate) == served) sleep_until_wakeup(&pool.wakeup, seen);
    atomic_fetch_sub(&pool.wakeup.n_sleeping, 1);
}

static void serve(int self)
{
    int64_t nobody = 0;
    if (!atomic_load_explicit(&pool.arrived_ns, memory_order_relaxed))
        atomic_compare_exchange_strong(&pool.arrived_ns, &nobody, asp_now_ns());
    take_ranges(self);
    atomic_fetch_sub_explicit(&pool.gate, 1, memory_order_release);
}

static void *helper(void *unused)
{
    uint32_t served = 0;
    lingering awake = {.rest = 0, .rest_next = 1};
    (void)unused;
    for (;;) {
        int self = pass_gate(&served);
        if (self) serve(self);
        if (self || atomic_load_explicit(&pool.is_for_next, memory_order_relaxed))
            while ((self = linger(&served, &awake))) serve(self);
        sleep_unless_open(served);
    }
    return NULL;
}

/* Start helpers until there are n, or fewer if the system refuses. They block signals: the application gets those. */
static void start_workers(int n)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    while (pool.n_helpers < n) {
        pthread_t thread;
        pthread_attr_t attributes;
        pthread_attr_init(&attributes);
        pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
        int failed = pthread_create(&thread, &attributes, helper, NULL);
        pthread_attr_destroy(&attributes);
        if (failed) break;
#ifdef __linux__
        pthread_setname_np(thread, "autosparse");
#endif
        pool.helpers[pool.n_helpers++] = thread;
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

void asp_after_fork(void)
{
    atomic_store(&pool.gate, 0);
    atomic_store(&pool.wakeup.n_sleeping, 0);
    atomic_flag_clear(&pool.taken);
    pool.n_helpers = pool.placing.n_placed = 0;
    atomic_store(&pool.callers.caller, NULL);
    atomic_store(&pool.callers.other_ns, 0);
    pool.penalty_ns = 0;
    atomic_store(&pool.cautious_until_ns, 0);
    pool.arrival_ns = ARRIVAL_FIRST_NS;
    asp_forget_waiting(&pool.waiting);
    asp_forget_team();
    pool.forked = 1;
}

static pthread_once_t fork_handler = PTHREAD_ONCE_INIT;
static void install_fork_handler(void) { pthread_atfork(NULL, NULL, asp_after_fork); }

/* Return the number of helpers for a job, 0 for none. `is_waking`: earlier calls let helpers fall asleep (call_intervals.c). */
static int helpers_for(int n_threads, double serial_ns, int64_t now_ns, int is_waking)
{
    int wanted = n_threads - 1 < MAX_HELPERS ? n_threads - 1 : MAX_HELPERS;
    if (!IS_RECKLESS) {
        const int n_awake = pool.n_helpers - atomic_load_explicit(&pool.wakeup.n_sleeping, memory_order_relaxed);
        const int64_t linger_ns = asp_linger_ns(&pool.waiting, now_ns);
        const int is_for_next = asp_wakes_for_next(&pool.jobs, now_ns, (int64_t)serial_ns, linger_ns, n_awake > 0);
        if (n_awake < 1 && serial_ns < 2 * WAKEUP_NS + pool.arrival_ns) {
            pool.arrival_ns -= pool.arrival_ns / 256; /* decays, so that waking is tried again */
            if (!is_waking && !is_for_next) return 0;
        }
        atomic_store_explicit(&pool.is_for_next, is_waking || is_for_next, memory_order_relaxed);
        if (now_ns < CAUTIOUS_UNTIL_NS && serial_ns < SMALL_JOB_NS) {
            pool.n_held_back++;
            return 0;
        }
        const double worth = serial_ns / SHARE_WORTH_NS - 1;
        if (worth < wanted) wanted = worth < 1 ? 1 : (int)worth;
    }
    const int n_useful = asp_place(&pool.placing, pool.helpers, pool.n_helpers);
    if (n_useful < wanted && (n_useful == 0 || !IS_RECKLESS)) wanted = n_useful;
    if (pool.n_helpers < wanted) start_workers(wanted), asp_place(&pool.placing, pool.helpers, pool.n_helpers);
    return wanted < pool.n_helpers ? wanted : pool.n_helpers;
}

/* Return the number of further threads of the host's team: all or none, because the caller waits for every one. */
static int teammates_for(int n_threads, double serial_ns, int64_t now_ns)
{
    const int is_cautious = now_ns < CAUTIOUS_UNTIL_NS && serial_ns < SMALL_JOB_NS && !IS_RECKLESS;
    const int is_short = serial_ns < (double)TEAMMATE_WORTH_NS * n_threads && !IS_RECKLESS;
    pool.n_held_back += is_cautious;
    return is_cautious || is_short ? 0 : (n_threads < MAX_HELPERS ? n_threads : MAX_HELPERS) - 1;
}

/* Wait for the helpers inside the closed gate; return the time that took, ns. */
static int64_t wait_for_helpers(void)
{
    if (!GATE_INSIDE(atomic_load_explicit(&pool.gate, memory_order_acquire))) return 0;
    int64_t begin_ns = asp_now_ns();
    for (int turn = 1; GATE_INSIDE(atomic_load_explicit(&pool.gate, memory_order_acquire)); turn++) {
        if (turn > 400) sched_yield(); /* the helper may need this core */
        else asp_relax();
    }
    return asp_now_ns() - begin_ns;
}

/* Start or shorten the restriction of small jobs to one thread, after a job that did or did not stall. */
static void note_stall(int stalled, int64_t now_ns)
{
    if (!stalled) {
        pool.penalty_ns /= 2;
        return;
    }
    pool.n_stalls++;
    pool.penalty_ns = pool.penalty_ns < PENALTY_FIRST_NS ? PENALTY_FIRST_NS : 2 * pool.penalty_ns;
    if (pool.penalty_ns > PENALTY_MAX_NS) pool.penalty_ns = PENALTY_MAX_NS;
    atomic_store_explicit(&pool.cautious_until_ns, now_ns + pool.penalty_ns, memory_order_relaxed);
}

/* Update the mean arrival time of woken helpers; no arrival counts as the duration of the job. */
static void note_arrival(int64_t end_ns)
{
    const int64_t arrived_ns = atomic_load_explicit(&pool.arrived_ns, memory_order_relaxed);
    pool.arrival_ns = asp_mean_arrival(pool.arrival_ns, (arrived_ns ? arrived_ns : end_ns) - pool.opened_ns);
}

/* Run the job on the caller and n_helpers helpers; return when it ended. */
static int64_t share(int n_helpers, double serial_ns)
{
    uint64_t generation = (uint64_t)(GATE_GENERATION(atomic_load(&pool.gate)) + 1);
    if ((uint32_t)generation == 0) generation = 1;
    open_shares(n_helpers + 1);
    atomic_store_explicit(&pool.arrived_ns, 0, memory_order_relaxed);
    pool.opened_ns = asp_now_ns();
    atomic_store(&pool.gate, generation << 32 | GATE_OPEN | (uint64_t)n_helpers << 16);
    const int n_woken = atomic_load(&pool.wakeup.n_sleeping);
    if (n_woken > 0) wake_sleepers(&pool.wakeup, n_woken < n_helpers ? n_woken : n_helpers);
    take_ranges(0);
    atomic_fetch_and(&pool.gate, ~GATE_OPEN);
    const int64_t done_ns = asp_now_ns();
    const int64_t waited_ns = wait_for_helpers();
    const int64_t end_ns = done_ns + waited_ns;
    if (n_woken > 0) note_arrival(done_ns);
    pool.n_shared++;
    note_stall(waited_ns > STALL_NS + serial_ns / 2 || end_ns - pool.opened_ns > STALL_NS + 3 * serial_ns, end_ns);
    return end_ns;
}

/* Run the job on the threads of the host's team; return when it ended. */
static int64_t share_in_team(int n_threads, double serial_ns)
{
    const int64_t begin_ns = asp_now_ns();
    open_shares(n_threads);
    asp_run_in_team(take_ranges, n_threads);
    const int64_t end_ns = asp_now_ns();
    pool.n_shared++;
    note_stall(end_ns - begin_ns > STALL_NS + 3 * serial_ns, end_ns);
    return end_ns;
}

int asp_parallel(asp_task task, void *context, int64_t n_items, int64_t min_items, int64_t max_items, int n_threads,
                 double serial_ns)
{
    int n_helpers = 0;
    if (n_items <= 0) return 0;
    const int is_worth = n_threads > 1 && n_items > min_items && (serial_ns >= SPIN_WORTH_NS || IS_RECKLESS);
    const int64_t now_ns = is_worth ? asp_now_ns() : 0;
    static _Thread_local char self;
    const int is_beside = is_worth && asp_has_concurrent_callers(&pool.callers, &self, now_ns) && !IS_RECKLESS;
    if (is_worth && n_threads > 1 + is_beside &&
        !atomic_flag_test_and_set_explicit(&pool.taken, memory_order_acquire)) {
        pthread_once(&fork_handler, install_fork_handler);
        asp_note_gap(&pool.waiting, now_ns);
        int64_t end_ns = now_ns + (int64_t)serial_ns;
        const int is_watched = serial_ns < SMALL_JOB_NS && !IS_RECKLESS;
        asp_call_interval *it = is_watched ? asp_watched((uintptr_t)task, n_items, n_threads, (int64_t)serial_ns) : NULL;
        const int stays = it && asp_stays_alone(it, now_ns);
        const int has_team = asp_has_team();
        if (!stays)
            n_helpers = has_team ? teammates_for(n_threads, serial_ns, now_ns)
                                 : helpers_for(n_threads - is_beside, serial_ns, now_ns, it && it->is_waking);
        if (it && !stays && n_helpers == 0) asp_found_no_helper(it);
        if (n_helpers > 0) {
            pool.task = task;
            pool.context = context;
            pool.n_items = n_items;
            pool.min_items = min_items;
            pool.max_items = max_items;
            end_ns = has_team ? share_in_team(n_helpers + 1, serial_ns) : share(n_helpers, serial_ns);
            if (it) it->own_ns = end_ns - now_ns;
        }
        pool.waiting.ended_ns = end_ns;
        atomic_flag_clear_explicit(&pool.taken, memory_order_release);
    }
    if (n_helpers == 0)
        for (int64_t begin = 0; begin < n_items; begin += max_items)
            task(context, begin, n_items - begin > max_items ? begin + max_items : n_items);
    return n_helpers;
}

void asp_pool_wait(int how) { atomic_store_explicit(&pool.waiting.how, how, memory_order_relaxed); }

int asp_pool_is_contended(void)
{
    return asp_now_ns() < atomic_load_explicit(&pool.waiting.contended_until_ns, memory_order_relaxed);
}

int64_t asp_pool_caution_left_ns(void)
{
    const int64_t left_ns = IS_RECKLESS ? 0 : CAUTIOUS_UNTIL_NS - asp_now_ns();
    return left_ns > 0 ? left_ns : 0;
}

#ifdef ASP_HOOKS
int asp_was_forked(void) { return pool.forked; }
void asp_pool_counters(int64_t *found)
{
    found[0] = pool.n_shared, found[1] = pool.n_held_back, found[2] = pool.n_stalls;
}
#endif

void *asp_parallel_address(void) { return (void *)(uintptr_t)asp_parallel; }

#endif
