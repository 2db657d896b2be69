/* A wake-up event that threads block on (a futex on Linux), and a monotonic clock. Included by pool.c alone. */
#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>
#ifdef __linux__
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

typedef struct {
    /* Wake-up event: `rings` counts the wake-ups (the futex word), n_sleeping the threads that are about to block or
     * blocked. */
    _Alignas(128) _Atomic uint32_t rings;
    _Atomic int n_sleeping;
} bell;

static int64_t clock_ns(void)
/* Return the monotonic time in nanoseconds. */
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static inline void relax(void)
/* Tell the processor that this is a spin loop. */
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

/* Block until the event is signalled, unless `rings` differs from `seen`, its value read before. */
static void sleep_until_bell(bell *it, uint32_t seen)
{
#ifdef __linux__
    syscall(SYS_futex, &it->rings, FUTEX_WAIT_PRIVATE, seen, NULL, NULL, 0);
#else
    pthread_mutex_lock(&bell_mutex);
    while (atomic_load(&it->rings) == seen) pthread_cond_wait(&bell_rings, &bell_mutex);
    pthread_mutex_unlock(&bell_mutex);
#endif
}

/* Signal the event and wake up to n blocked threads (all of them outside Linux). */
static void ring_bell(bell *it, int n)
{
#ifdef __linux__
    atomic_fetch_add(&it->rings, 1);
    syscall(SYS_futex, &it->rings, FUTEX_WAKE_PRIVATE, n, NULL, NULL, 0);
#else
    (void)n;
    pthread_mutex_lock(&bell_mutex);
    atomic_fetch_add(&it->rings, 1);
    pthread_cond_broadcast(&bell_rings);
    pthread_mutex_unlock(&bell_mutex);
#endif
}
