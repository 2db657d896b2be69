/* Functions that only tests call, which force a choice of the runtime or read its internal state. They exist only in
 * builds that define ASP_HOOKS: editable installations, builds in place and builds with sanitizers. Wheels do not have
 * them.
 *
 * A forced choice is one of the numbers listed at the function, or -1, which returns the choice to the runtime.
 */

/* Force the algorithm of asp_csr_t_mm: 0 transposes A, 1 partitions rows, 2 partitions columns, 3 partitions columns
 * and lets each thread accumulate in private memory. */
void asp_force_t_way(int way);
/* Force (1) or prevent (0) copying a B whose rows are read repeatedly to cache-line boundaries. */
void asp_force_copies(int copies);
/* Force SpMV kernels to use gather instructions (1) or scalar loads (0). */
void asp_force_gathers(int gathers);
/* Force the answer to "do operands contend for the last-level cache of an AMD processor": 0 no, 1 yes, 2 yes by the
 * thresholds of Zen 5. */
void asp_force_llc_contention(int contention);
/* Let small jobs use helper threads even while the cores are busy (1), or restore the default (0). */
void asp_force_helpers(int on);

/* Compute the column partition of asp_csr_t_mm for n_threads threads that add to C directly, and return its number of
 * parts. `cuts` receives one boundary more than parts, at most 257 values. No two parts write to one cache line of C.
 * Returns 0 where every thread must accumulate in private memory. */
int asp_csr_t_cuts(int dtype, uintptr_t C, int64_t ldc, int64_t n_vecs, int n_threads, int64_t *cuts);
/* Simulate the call-interval tuner (call_intervals.c) with given times and return how many of n calls stay on one thread. Call
 * i and the program up to the next call last shared_ns[i] or alone_ns[i]; a shared job itself lasts own_ns. After a
 * call on one thread the next n_asleep calls find no helper, unless a call wakes the helpers, which takes wake_ns. */
int64_t asp_intervals_alone(const int64_t *shared_ns, const int64_t *alone_ns, int64_t n, int64_t own_ns, int64_t n_asleep,
                         int64_t wake_ns);
/* Return whether the call-interval tuner decides once for two jobs of one task that differ in their serial time only. */
int asp_are_one_job(int64_t n_items, int n_threads, int64_t serial_ns, int64_t other_serial_ns);
/* Return the mean arrival time of woken helpers (call_intervals.c) after n arrivals; it is mean_ns before. */
int64_t asp_arrival_after(int64_t mean_ns, const int64_t *took_ns, int64_t n);
/* Return in how many of n calls a thread is found to have concurrent callers. Call i is made by the thread callers[i]
 * (not 0) at now_ns[i]. */
int64_t asp_concurrent_calls(const int64_t *callers, const int64_t *now_ns, int64_t n);
/* Return how long, in ns, a helper stays awake after n jobs that began and ended at the given times (waiting.h). `how`
 * is the argument of asp_pool_wait; `is_limited` says that a control group limits CPU time. */
int64_t asp_linger_after(const int64_t *begins_ns, const int64_t *ends_ns, int64_t n, int how, int is_limited);
/* Return how many of n checks refuse long waiting. Checks are step_ns apart; at check i the run delays of all threads
 * sum to delays_ns[i] and their time slices to n_slices[i]. */
int64_t asp_looks_that_refuse(const int64_t *delays_ns, const int64_t *n_slices, int64_t n, int64_t step_ns);
/* Return the number of CPUs that CPU-time quotas allow, or 0 without a limit. `membership` is a file in the format of
 * /proc/self/cgroup; `root` is the directory of the control groups' files. Quotas of ancestor groups count. */
int asp_cgroup_cpus(const char *membership, const char *root);
/* Return whether this process was forked from a process that had loaded this library. */
int asp_was_forked(void);
/* Store three counters since the start in `found`: jobs run with helpers, jobs kept on one thread after a stall, and
 * stalls seen. */
void asp_pool_counters(int64_t *found);
/* Store three numbers about the pages of freed results (output.c) in `found`: bytes and blocks cached now, and blocks
 * reused since the start. */
void asp_output_counters(int64_t *found);
/* Return the size in bytes of the mapping that a result of at least 2 MiB receives (output.c). */
int64_t asp_output_mapped(int64_t bytes);
/* Return the bytes that the last product of two sparse matrices allocated for rows before their place in the result was
 * known. */
int64_t asp_spgemm_private_bytes(void);
