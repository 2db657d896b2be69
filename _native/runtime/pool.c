/* Short jobs on several threads: on OpenMP's team, else on a pool of helpers.
 *
 * The team's barrier waits for every thread, also for one that the system has not scheduled yet: with busy cores that
 * is a time slice, 4 to 8 ms, for a job of 0.1 ms. Such stalls are noticed, and small jobs then stay on one thread for
 * a while that doubles with each stall in a row, up to a second.
 *
 * Helpers do without the barrier: the caller opens a gate and starts working at once; helpers that are awake pass the
 * gate and take ranges from a shared counter; when nothing is left the caller closes the gate and waits only for those
 * inside. A helper that comes late finds the gate closed.
 */
#include "common.h"

#include "pool_api.h"

#if ASP_HAVE_THREADS

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <time.h>
#include <unistd.h>
#ifdef _OPENMP
#include <omp.h>
#endif
#ifdef __linux__
#include <linux/futex.h>
#include <sys/syscall.h>
#endif

enum { MAX_HELPERS = 255 };
enum { SPIN_NS = 60000 };         /* a helper looks for the next job this long before it sleeps */
enum { WAKE_NS = 40000 };         /* serial time from which waking a sleeping helper pays by itself */
enum { SPIN_WORTH_NS = 12000 };   /* serial time from which a spinning helper pays */
enum { STREAK_NS = 300000 };      /* jobs closer together than this are a streak: helpers are kept awake */
enum { STALL_NS = 250000 };       /* time lost in one job that only a descheduled thread explains */
enum { PENALTY_FIRST_NS = 4000000, PENALTY_MOST_NS = 1000000000, SMALL_JOB_NS = 3000000 };

/* gate: generation (32 bits) | open (1) | helpers wanted (15) | helpers inside (16). */
#define GATE_OPEN ((uint64_t)1 << 31)
#define GATE_WANTED(gate) (((gate) >> 16) & 0x7fff)
#define GATE_INSIDE(gate) ((gate) & 0xffff)
#define GATE_GENERATION(gate) ((uint32_t)((gate) >> 32))

static struct {
    _Alignas(128) _Atomic uint64_t gate;
    struct {
        _Alignas(128) _Atomic int64_t next;
    } shares[MAX_HELPERS + 1];
    _Alignas(128) asp_task task;
    void *context;
    int64_t n_items, min_items, max_items;
    int n_sharing;
    _Alignas(128) _Atomic uint32_t bell; /* helpers sleep on it */
    _Atomic int n_sleeping;
    _Alignas(128) atomic_flag taken; /* one job at a time; a second caller works alone */
    int n_helpers;
    int64_t last_job_ns, penalty_ns, cautious_until_ns;
    int64_t n_shared, n_held_back, n_stalls;
    int forked, reckless;
} pool = {.taken = ATOMIC_FLAG_INIT};

static int64_t clock_ns(clockid_t which)
{
    struct timespec now;
    clock_gettime(which, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static inline void relax(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

#ifndef __linux__
static pthread_mutex_t bell_mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t bell_rings = PTHREAD_COND_INITIALIZER;
#endif

static void sleep_until_bell(uint32_t seen)
{
#ifdef __linux__
    syscall(SYS_futex, &pool.bell, FUTEX_WAIT_PRIVATE, seen, NULL, NULL, 0);
#else
    pthread_mutex_lock(&bell_mutex);
    while (atomic_load(&pool.bell) == seen) pthread_cond_wait(&bell_rings, &bell_mutex);
    pthread_mutex_unlock(&bell_mutex);
#endif
}

static void ring_bell(int n)
{
#ifdef __linux__
    atomic_fetch_add(&pool.bell, 1);
    syscall(SYS_futex, &pool.bell, FUTEX_WAKE_PRIVATE, n, NULL, NULL, 0);
#else
    (void)n;
    pthread_mutex_lock(&bell_mutex);
    atomic_fetch_add(&pool.bell, 1);
    pthread_cond_broadcast(&bell_rings);
    pthread_mutex_unlock(&bell_mutex);
#endif
}

/* Take ranges of one share until none is left: large ones first, then smaller, so that all threads end together. */
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

/* The thread's own share first, the same at every job of this size: its part of the operands is in the caches of its
 * core (measured: 3x on operands that fit them). Then what others have left. */
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

/* Number of this helper in the job, from 1; 0 when there is none to join. */
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

static void *helper(void *unused)
{
    uint32_t served = 0;
    (void)unused;
    for (;;) {
        int64_t give_up_ns = clock_ns(CLOCK_MONOTONIC) + SPIN_NS;
        for (int turn = 1;; turn++) {
            int self = pass_gate(&served);
            if (self) {
                take_ranges(self);
                atomic_fetch_sub_explicit(&pool.gate, 1, memory_order_release);
                give_up_ns = clock_ns(CLOCK_MONOTONIC) + SPIN_NS;
            }
            relax();
            if (turn % 32 == 0 && clock_ns(CLOCK_MONOTONIC) > give_up_ns) break;
        }
        uint32_t seen = atomic_load(&pool.bell);
        atomic_fetch_add(&pool.n_sleeping, 1);
        uint64_t gate = atomic_load(&pool.gate); /* after n_sleeping: either we see the job or its caller sees us */
        if (!(gate & GATE_OPEN) || GATE_GENERATION(gate) == served) sleep_until_bell(seen);
        atomic_fetch_sub(&pool.n_sleeping, 1);
    }
    return NULL;
}

/* Start helpers until there are n; fewer when the system refuses. Signals stay with the threads of the application. */
static void hire(int n)
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
        pool.n_helpers++;
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

void asp_after_fork(void)
{
    atomic_store(&pool.gate, 0);
    atomic_store(&pool.n_sleeping, 0);
    atomic_flag_clear(&pool.taken);
    pool.n_helpers = 0;
    pool.penalty_ns = pool.cautious_until_ns = pool.last_job_ns = 0;
    pool.forked = 1;
}

static pthread_once_t fork_handler = PTHREAD_ONCE_INIT;
static void install_fork_handler(void) { pthread_atfork(NULL, NULL, asp_after_fork); }

/* Whether jobs go to OpenMP's team. */
static int on_team(void)
{
#ifdef _OPENMP
    return !pool.forked;
#else
    return 0;
#endif
}

/* Helpers worth having for this job, 0 when it should stay on the calling thread; holds pool.taken. */
static int helpers_for(int n_threads, double serial_ns, int64_t now_ns)
{
    int streak = now_ns - pool.last_job_ns < STREAK_NS;
    pool.last_job_ns = now_ns;
    if (serial_ns < WAKE_NS && !streak && !pool.reckless) return 0;
    if (now_ns < pool.cautious_until_ns && serial_ns < SMALL_JOB_NS && !pool.reckless) {
        pool.n_held_back++;
        return 0;
    }
    int wanted = n_threads - 1 < MAX_HELPERS ? n_threads - 1 : MAX_HELPERS;
    if (on_team()) return wanted; /* a team that changes its size starts and ends threads each time */
    double worth = serial_ns / (SPIN_WORTH_NS / 2) - 1; /* each thread gets at least half of SPIN_WORTH_NS */
    if (!pool.reckless && worth < wanted) wanted = (int)worth;
    if (pool.n_helpers < wanted) hire(wanted);
    return wanted < pool.n_helpers ? wanted : pool.n_helpers;
}

/* Wait for the helpers inside the closed gate; returns the time that took. */
static int64_t wait_for_helpers(void)
{
    if (!GATE_INSIDE(atomic_load_explicit(&pool.gate, memory_order_acquire))) return 0;
    int64_t begin_ns = clock_ns(CLOCK_MONOTONIC);
    for (int turn = 1; GATE_INSIDE(atomic_load_explicit(&pool.gate, memory_order_acquire)); turn++) {
        if (turn > 400) sched_yield(); /* the helper may be waiting for this very core */
        else relax();
    }
    return clock_ns(CLOCK_MONOTONIC) - begin_ns;
}

static void note_stall(int stalled, int64_t now_ns)
{
    if (!stalled) {
        pool.penalty_ns /= 2;
        return;
    }
    pool.n_stalls++;
    pool.penalty_ns = pool.penalty_ns < PENALTY_FIRST_NS ? PENALTY_FIRST_NS : 2 * pool.penalty_ns;
    if (pool.penalty_ns > PENALTY_MOST_NS) pool.penalty_ns = PENALTY_MOST_NS;
    pool.cautious_until_ns = now_ns + pool.penalty_ns;
}

#ifdef _OPENMP
/* The job on OpenMP's team, which PyTorch, MKL and others of this process share: their workers go on looking for work
 * for milliseconds after each region, and helpers of our own would fight them for the cores (measured: 3x slower). */
static int64_t run_on_team(int n_threads)
{
    int64_t done_ns = 0;
    open_shares(n_threads);
#pragma omp parallel num_threads(n_threads)
    {
        take_ranges(omp_get_thread_num());
        if (omp_get_thread_num() == 0) done_ns = clock_ns(CLOCK_MONOTONIC);
    }
    return clock_ns(CLOCK_MONOTONIC) - done_ns;
}
#else
static int64_t run_on_team(int n_threads)
{
    (void)n_threads;
    return 0;
}
#endif

/* The job on helpers of our own: without OpenMP, and in forked children, where OpenMP's team is gone and it would hang.
 * Returns the time spent waiting for helpers. */
static int64_t run_on_helpers(int n_helpers)
{
    uint64_t generation = (uint64_t)(GATE_GENERATION(atomic_load(&pool.gate)) + 1);
    if ((uint32_t)generation == 0) generation = 1;
    open_shares(n_helpers + 1);
    atomic_store(&pool.gate, generation << 32 | GATE_OPEN | (uint64_t)n_helpers << 16);
    if (atomic_load(&pool.n_sleeping) > 0) ring_bell(n_helpers);
    take_ranges(0);
    atomic_fetch_and(&pool.gate, ~GATE_OPEN);
    return wait_for_helpers();
}

static void share(int n_helpers, double serial_ns)
{
    int64_t begin_ns = clock_ns(CLOCK_MONOTONIC);
    int64_t begin_cpu_ns = clock_ns(CLOCK_THREAD_CPUTIME_ID);
    int64_t waited_ns = on_team() ? run_on_team(n_helpers + 1) : run_on_helpers(n_helpers);
    int64_t end_ns = clock_ns(CLOCK_MONOTONIC);
    int64_t off_cpu_ns = end_ns - begin_ns - (clock_ns(CLOCK_THREAD_CPUTIME_ID) - begin_cpu_ns);
    pool.last_job_ns = end_ns;
    pool.n_shared++;
    note_stall(waited_ns > STALL_NS + serial_ns / 2 || off_cpu_ns > STALL_NS, end_ns);
}

int asp_parallel(asp_task task, void *context, int64_t n_items, int64_t min_items, int64_t max_items, int n_threads,
                 double serial_ns)
{
    int n_helpers = 0;
    if (n_items <= 0) return 0;
    if (n_threads > 1 && n_items > min_items && (serial_ns >= SPIN_WORTH_NS || pool.reckless) &&
        !atomic_flag_test_and_set_explicit(&pool.taken, memory_order_acquire)) {
        pthread_once(&fork_handler, install_fork_handler);
        n_helpers = helpers_for(n_threads, serial_ns, clock_ns(CLOCK_MONOTONIC));
        if (n_helpers > 0) {
            pool.task = task;
            pool.context = context;
            pool.n_items = n_items;
            pool.min_items = min_items;
            pool.max_items = max_items;
            share(n_helpers, serial_ns);
        }
        atomic_flag_clear_explicit(&pool.taken, memory_order_release);
    }
    if (n_helpers == 0)
        for (int64_t begin = 0; begin < n_items; begin += max_items)
            task(context, begin, n_items - begin > max_items ? begin + max_items : n_items);
    return n_helpers;
}

int asp_max_threads(void)
{
#ifdef _OPENMP
    return omp_get_max_threads();
#else
    long n = sysconf(_SC_NPROCESSORS_ONLN);
    return n > 0 ? (int)n : 1;
#endif
}

int asp_was_forked(void) { return pool.forked; }

void asp_pool_set_caution(int on) { pool.reckless = !on; }

int64_t asp_pool_caution_left_ns(void)
{
    const int64_t left_ns = pool.reckless ? 0 : pool.cautious_until_ns - clock_ns(CLOCK_MONOTONIC);
    return left_ns > 0 ? left_ns : 0;
}

void asp_pool_counters(int64_t *n_shared, int64_t *n_held_back, int64_t *n_stalls)
{
    *n_shared = pool.n_shared;
    *n_held_back = pool.n_held_back;
    *n_stalls = pool.n_stalls;
}

#else /* no threads on this system: the caller does everything */

int asp_parallel(asp_task task, void *context, int64_t n_items, int64_t min_items, int64_t max_items, int n_threads,
                 double serial_ns)
{
    (void)min_items, (void)max_items, (void)n_threads, (void)serial_ns;
    if (n_items > 0) task(context, 0, n_items);
    return 0;
}
int asp_max_threads(void) { return 1; }
void asp_after_fork(void) {}
int asp_was_forked(void) { return 0; }
void asp_pool_set_caution(int on) { (void)on; }
int64_t asp_pool_caution_left_ns(void) { return 0; }
void asp_pool_counters(int64_t *n_shared, int64_t *n_held_back, int64_t *n_stalls)
{
    *n_shared = *n_held_back = *n_stalls = 0;
}

#endif

void *asp_parallel_address(void) { return (void *)(uintptr_t)asp_parallel; }
