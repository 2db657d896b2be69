/* CPU affinity of the helper threads; used by pool.c, which holds its lock meanwhile. */
#include <pthread.h>

/* Helpers placed, the caller's CPU at that time, and the number of CPUs beside it that the caller may use. */
typedef struct {
    int n_placed, caller_cpu, n_others;
} asp_placing;

/* Keep n threads off the CPU that the caller runs on; return the number of other CPUs, which bounds the number of
 * helpers that can run beside the caller (INT_MAX if it is unknown). */
int asp_place(asp_placing *it, const pthread_t *threads, int n);
