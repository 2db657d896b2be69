/* What only tests call: to force a choice, or to look inside. Compiled where the sources are worked on (an editable
 * installation, a build in place or with sanitizers), which defines ASP_HOOKS; no wheel has any of it.
 *
 * A forced choice is a number as below, or -1: as the runtime chooses itself. */

/* How asp_csr_t_mm goes about it: 0 transposes A, 1 parts of rows, 2 columns, 3 columns in memory of the threads' own. */
void asp_force_t_way(int way);
/* Whether a B that is read often is copied to cache lines. */
void asp_force_copies(int copies);
/* Whether SpMV kernels use gather instructions. */
void asp_force_gathers(int gathers);
/* Whether operands crowd the last cache in the way that AMD's processors mind: 1, 2 as Zen 5 minds it, 0. */
void asp_force_llc_contention(int contention);
/* Whether small jobs use helpers even while the cores are busy, or 0. */
void asp_force_helpers(int on);

/* Where asp_csr_t_mm cuts columns for so many threads, if these add to C itself: their number (the cuts are one more, at
 * most 257), no two of them writing to one line of C; 0: every thread adds to memory of its own. */
int asp_csr_t_cuts(int dtype, uintptr_t C, int64_t ldc, int64_t n_vecs, int n_threads, int64_t *cuts);
/* How many of n calls of a job stay on one thread, if call i and what follows it last shared_ns[i] or alone_ns[i], and the
 * job itself own_ns when it is shared: the rules of call_intervals.c with times that are given. A call that was kept alone lets
 * helpers fall asleep: the n_asleep calls after it find none, unless it is woken, which takes wake_ns. */
int64_t asp_intervals_alone(const int64_t *shared_ns, const int64_t *alone_ns, int64_t n, int64_t own_ns, int64_t n_asleep,
                         int64_t wake_ns);
/* In how many of n calls a thread had others beside it, if call i came from thread callers[i] (not 0) at now_ns[i]. */
int64_t asp_concurrent_calls(const int64_t *callers, const int64_t *now_ns, int64_t n);
/* How long a helper stays awake after n jobs that began and ended at these times, ns (waiting.h); `how` as asp_pool_wait.
 * `is_limited`: a control group limits CPU time. */
int64_t asp_linger_after(const int64_t *begins_ns, const int64_t *ends_ns, int64_t n, int how, int is_limited);
/* How many of n looks, one each step_ns, refuse long waiting when the run delays of all threads sum to delays_ns[i], and
 * their time slices to n_slices[i]. */
int64_t asp_looks_that_refuse(const int64_t *delays_ns, const int64_t *n_slices, int64_t n, int64_t step_ns);
/* CPUs that the control groups named in the file `membership` (/proc/self/cgroup) may use by their quotas of CPU time,
 * groups above them included, with their files below `root`; 0: no limit. */
int asp_cgroup_cpus(const char *membership, const char *root);
/* Whether this process was forked from one that had loaded this library. */
int asp_was_forked(void);
/* Three counters since the start: jobs run with helpers, jobs kept on one thread because the cores were busy, stalls seen. */
void asp_pool_counters(int64_t *found);
/* Three of the pages of freed results (output.c): bytes kept and blocks kept now, blocks handed out again since the start. */
void asp_output_counters(int64_t *found);
