/* A function that processes items [begin, end) of a job. Several threads call it concurrently with disjoint ranges. */
typedef void (*asp_task)(void *context, int64_t begin, int64_t end);

/* Run `task` over [0, n_items) on at most n_threads threads including the caller, and one thread fewer while other
 * application threads are calling. Ranges hold min_items to max_items items, except that the last range of a share may
 * be shorter. serial_ns, a rough estimate of the time on one thread, decides whether helpers are woken. Returns the
 * number of helpers that could take part. Any number of threads may call it concurrently; only one of them gets
 * helpers. */
int asp_parallel(asp_task task, void *context, int64_t n_items, int64_t min_items, int64_t max_items, int n_threads,
                 double serial_ns);
/* Return the address of asp_parallel, for code that is compiled at run time. */
void *asp_parallel_address(void);
/* Return the maximum number of threads this process should use: OpenMP's setting (OMP_NUM_THREADS, threadpoolctl,
 * affinity) or the number of CPUs, bounded by asp_limit_threads and the CPU-time quota of its control group. */
int asp_max_threads(void);
/* Set an upper bound of asp_max_threads for this process (0: none) and return the bound before. With n < 0: only
 * return it. */
int asp_limit_threads(int n);
/* Reset the pool in the child of a fork(), which has no helper threads. pthread_atfork calls it as well. */
void asp_after_fork(void);
/* Return for how many nanoseconds small jobs remain restricted to one thread after a stall; 0: they are not. */
int64_t asp_pool_caution_left_ns(void);
/* Enable (1, default) or disable (0) the call-interval tuner (call_intervals.c) for jobs of the calling thread. It is disabled
 * while kernels are timed. */
void asp_pool_tune_call_intervals(int on);
/* Set how helpers wait for the next job, for all callers: 0 lets the pool decide (waiting.h), 1 spins for up to a
 * millisecond after each job, 2 blocks at once. */
void asp_pool_wait(int how);
/* Return whether threads of this process were delayed waiting for a core within the last second (waiting.h). */
int asp_pool_is_contended(void);
/* Run shared jobs on the threads of the host's OpenMP library, given the addresses of its GOMP_parallel and
 * omp_get_thread_num (team.h). Zeros return to the pool's own helpers. */
void asp_pool_team(uintptr_t gomp_parallel, uintptr_t omp_get_thread_num);
