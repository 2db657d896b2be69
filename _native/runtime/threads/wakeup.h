/* A wake-up event that threads block on (a futex on Linux). Included by pool.c alone. */
#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#ifdef __linux__
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

typedef struct {
    /* Wake-up event: `count` counts the wake-ups (the futex word), n_sleeping the threads that are about to block or
     * blocked. */
    _Alignas(128) _Atomic uint32_t count;
    _Atomic int n_sleeping;
} wakeup;

#ifndef __linux__
static pthread_mutex_t wakeup_mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t wakeup_condition = PTHREAD_COND_INITIALIZER;
#endif

/* Block until the event is signalled, unless `count` differs from `seen`, its value read before. */
static void sleep_until_wakeup(wakeup *it, uint32_t seen)
{
#ifdef __linux__
    syscall(SYS_futex, &it->count, FUTEX_WAIT_PRIVATE, seen, NULL, NULL, 0);
#else
    pthread_mutex_lock(&wakeup_mutex);
    while (atomic_load(&it->count) == seen) pthread_cond_wait(&wakeup_condition, &wakeup_mutex);
    pthread_mutex_unlock(&wakeup_mutex);
#endif
}

/* Signal the event and wake up to n blocked threads (all of them outside Linux). */
static void wake_sleepers(wakeup *it, int n)
{
#ifdef __linux__
    atomic_fetch_add(&it->count, 1);
    syscall(SYS_futex, &it->count, FUTEX_WAKE_PRIVATE, n, NULL, NULL, 0);
#else
    (void)n;
    pthread_mutex_lock(&wakeup_mutex);
    atomic_fetch_add(&it->count, 1);
    pthread_cond_broadcast(&wakeup_condition);
    pthread_mutex_unlock(&wakeup_mutex);
#endif
}
