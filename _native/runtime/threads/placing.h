/* CPU affinity of the helper threads; used by pool.c, which holds its lock meanwhile. */
#include <pthread.h>

/* Helpers placed, the caller's CPU at that time, and whether the process may use only one CPU. */
typedef struct {
    int n_placed, caller_cpu, is_confined;
} asp_placing;

/* Keep n threads off the CPU that the caller runs on; return 0 when they may use no other. */
int asp_place(asp_placing *it, const pthread_t *threads, int n);
