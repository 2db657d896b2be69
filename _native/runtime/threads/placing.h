/* Where helpers may run; used by pool.c. */
#include <pthread.h>

typedef struct {
    int n_placed, caller_cpu, is_confined;
} asp_placing;

/* Keep n threads off the CPU that the caller is on; return 0 when they may use no other. */
int asp_place(asp_placing *it, const pthread_t *threads, int n);
