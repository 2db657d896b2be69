/* CPU affinity of the helper threads (placing.h). A thread that is woken often starts on the CPU of the thread that
 * woke it, where it cannot run in parallel. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* pthread_setaffinity_np */
#endif
#include "common.h"

#if ASP_HAVE_THREADS

#include <sched.h>

#include "placing.h"

#ifdef __linux__
enum { KEPT_OFF_CPUS = 8 }; /* with more CPUs than this the kernel's scheduler finds an idle CPU itself */

/* Exclude `cpu` from the affinity masks of n threads; return 0 if the process may use only one CPU. */
static int keep_off(int cpu, const pthread_t *threads, int n)
{
    cpu_set_t allowed;
    if (sched_getaffinity(0, sizeof allowed, &allowed)) return 1; /* the system has more CPUs than cpu_set_t holds */
    const int n_allowed = CPU_COUNT(&allowed);
    if (n_allowed < 2) return 0;
    if (n_allowed > KEPT_OFF_CPUS) return 1;
    CPU_CLR(cpu, &allowed);
    for (int i = 0; i < n; i++) pthread_setaffinity_np(threads[i], sizeof allowed, &allowed);
    return 1;
}

int asp_place(asp_placing *it, const pthread_t *threads, int n)
{
    const int cpu = sched_getcpu();
    if (cpu != it->caller_cpu || it->n_placed != n) {
        it->caller_cpu = cpu;
        it->n_placed = n;
        it->is_confined = !keep_off(cpu, threads, n);
    }
    return !it->is_confined;
}
#else
int asp_place(asp_placing *it, const pthread_t *threads, int n)
{
    (void)it, (void)threads, (void)n;
    return 1;
}
#endif

#endif
