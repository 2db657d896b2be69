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
/* CPUs that the control groups named in the file `membership` (/proc/self/cgroup) may use by their quotas of CPU time,
 * groups above them included, with their files below `root`; 0: no limit. */
int asp_cgroup_cpus(const char *membership, const char *root);
/* Forget the workers: they do not survive fork(). Called by pthread_atfork as well. */
void asp_after_fork(void);
/* Whether this process was forked from one that had loaded this library. */
int asp_was_forked(void);
/* Counters since the start: jobs run with helpers, jobs kept on one thread because the cores were busy, stalls seen. */
void asp_pool_counters(int64_t *n_shared, int64_t *n_held_back, int64_t *n_stalls);
/* Nanoseconds for which small jobs still stay on one thread, because of a stall; 0: they do not. */
int64_t asp_pool_caution_left_ns(void);
/* 1 (default): keep small jobs on one thread while the cores are busy; 0: never hold back (tests). */
void asp_pool_set_caution(int on);
/* 1 (default): short jobs of the calling thread stay on it where the program's cycles are shorter so (cycles.c); 0: they do
 * not, as while kernels are timed. */
void asp_pool_watch_cycles(int on);
/* How many of n calls of a job stay on one thread, if call i and what follows it last shared_ns[i] or alone_ns[i], and the
 * job itself own_ns when it is shared: the same rules with times that are given (tests). A call that was kept alone lets
 * helpers fall asleep: the n_asleep calls after it find none, unless it is woken. */
int64_t asp_cycles_alone(const int64_t *shared_ns, const int64_t *alone_ns, int64_t n, int64_t own_ns, int64_t n_asleep);
