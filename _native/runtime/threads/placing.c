/* CPU affinity of the helper threads (placing.h). A thread that is woken often starts on the CPU of the thread that
 * woke it, where it cannot run in parallel. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* pthread_setaffinity_np */
#endif
#include "common.h"

#if ASP_HAVE_THREADS

#include <limits.h>
#include <sched.h>

#include "placing.h"

#ifdef __linux__
enum { KEPT_OFF_CPUS = 8 }; /* with more CPUs than this the kernel's scheduler finds an idle CPU itself */

/* Exclude `cpu` from the affinity masks of n threads; return the number of other CPUs. */
static int keep_off(int cpu, const pthread_t *threads, int n)
{
    cpu_set_t allowed;
    if (sched_getaffinity(0, sizeof allowed, &allowed)) return INT_MAX; /* more CPUs than cpu_set_t holds */
    const int n_allowed = CPU_COUNT(&allowed);
    if (n_allowed < 2 || n_allowed > KEPT_OFF_CPUS) return n_allowed - 1;
    CPU_CLR(cpu, &allowed);
    for (int i = 0; i < n; i++) pthread_setaffinity_np(threads[i], sizeof allowed, &allowed);
    return n_allowed - 1;
}

int asp_place(asp_placing *it, const pthread_t *threads, int n)
{
    const int cpu = sched_getcpu();
    if (cpu != it->caller_cpu || it->n_placed != n || n == 0) {
        it->caller_cpu = cpu;
        it->n_placed = n;
        it->n_others = keep_off(cpu, threads, n);
    }
    return it->n_others;
}
#else
int asp_place(asp_placing *it, const pthread_t *threads, int n)
{
    (void)it, (void)threads, (void)n;
    return INT_MAX;
}
#endif

#endif
