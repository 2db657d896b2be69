/* Work on items [begin, end) of a job; called by several threads with disjoint ranges. */
typedef void (*asp_task)(void *context, int64_t begin, int64_t end);

/* Run task over [0, n_items) on at most n_threads threads, the caller among them, and one less while other threads
 * call too. Ranges hold at least min_items (a range's last items excepted) and at most max_items. serial_ns is what one
 * thread would take, roughly: it decides whether helpers are worth waking. Returns how many helpers took part. Safe to
 * call from any number of threads. */
int asp_parallel(asp_task task, void *context, int64_t n_items, int64_t min_items, int64_t max_items, int n_threads,
                 double serial_ns);
/* Address of asp_parallel, for code compiled later. */
void *asp_parallel_address(void);
/* Most threads this process should use: OpenMP's answer (OMP_NUM_THREADS, threadpoolctl, affinity) or the number of
 * CPUs, and no more than its control group's quota of CPU time is worth. */
int asp_max_threads(void);
/* Set the most threads that asp_max_threads answers in this process, and return the limit before; 0: no limit.
 * With n < 0: only return it. */
int asp_limit_threads(int n);
/* Forget the workers: they do not survive fork(). Called by pthread_atfork as well. */
void asp_after_fork(void);
/* Nanoseconds for which small jobs still stay on one thread, because of a stall; 0: they do not. */
int64_t asp_pool_caution_left_ns(void);
/* 1 (default): short jobs of the calling thread stay on it where the program's cycles are shorter so (call_intervals.c); 0: they do
 * not, as while kernels are timed. */
void asp_pool_tune_call_intervals(int on);
/* How helpers wait for the next job, from now on and for all callers: 0 as the pool decides (waiting.h), 1 awake for up to
 * a millisecond after each job, 2 asleep at once. */
void asp_pool_wait(int how);
/* Whether the pool saw threads of this process wait for a core within the last second (waiting.h). */
int asp_pool_is_contended(void);
/* Run shared jobs on the threads of a host's OpenMP, by the addresses of its GOMP_parallel and omp_get_thread_num (team.h);
 * with zeros by helpers of the pool again. */
void asp_pool_team(uintptr_t gomp_parallel, uintptr_t omp_get_thread_num);
