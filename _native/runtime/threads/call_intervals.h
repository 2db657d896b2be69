/* Call-interval tuner (call_intervals.c); used by pool.c, which holds the pool's lock during all calls. */
enum { LINGER_NS = 60000 };      /* a helper spins for this long before it blocks, ns */
enum { WAKE_NS = 60000 };        /* a woken helper is assumed to have arrived after this time, ns */
/* Upper bound of the number of jobs before spinning or waking is retried after it was useless. */
enum { LINGER_REST_MAX = 128 };
/* A block of a trial: BLOCK_SKIPPED calls that do not count and BLOCK_INTERVALS calls that are timed. */
enum { BLOCK_SKIPPED = 2, BLOCK_INTERVALS = 6, BLOCK_CALLS = BLOCK_SKIPPED + BLOCK_INTERVALS, TRIAL_BLOCKS = 4 };

/* State of one recurring job, identified by task, number of items, number of threads and octave of the serial time. */
typedef struct asp_call_interval {
    uint64_t key;
    int64_t begin_ns, own_ns; /* begin of the latest call, and duration of the latest shared one */
    int64_t serial_ns;        /* estimated duration on one thread */
    int64_t usual_ns, judged_ns; /* running mean of the interval, and its value at the latest trial */
    int is_alone;             /* current mode: 1 keeps the job on the calling thread */
    int was_alone, is_waking; /* the previous call stayed on one thread; this call is the first shared one after it */
    int64_t woken_ns;         /* begin of the latest call with is_waking */
    int rest, rest_next;      /* calls until the next trial, and the number used after it */
    int64_t since_ns;         /* sum of the intervals since the latest trial */
    int step;                 /* calls made in the current trial; 0: no trial */
    int n_other;              /* calls in the other mode in the current trial, and the shortest of their intervals */
    int64_t other_ns;
    int n[2]; /* timed calls in the current and the other mode */
    int64_t lasted_ns[2][TRIAL_BLOCKS / 2 * BLOCK_INTERVALS]; /* intervals in the current and the other mode */
} asp_call_interval;

/* Return the state of a job that takes about serial_ns on one thread, or NULL while the calling thread's jobs are not
 * watched. A colliding job is evicted. serial_ns tells jobs apart whose items are parts: C = A^T B has as many parts as
 * threads for every A, and the decision for a small A kept products of 0.2 ms on one thread. */
asp_call_interval *asp_watched(uintptr_t task, int64_t n_items, int n_threads, int64_t serial_ns);
/* Record that the job begins at now_ns and return whether it stays on the calling thread. */
int asp_stays_alone(asp_call_interval *it, int64_t now_ns);
/* Record that the call that began last should have been shared but found no helper. The current trial is dropped,
 * unless helpers were woken just before. */
void asp_found_no_helper(asp_call_interval *it);

/* State of the rule for a succession of jobs that are each too short to wake helpers for. When jobs follow each other
 * within the helpers' spinning time, one wake-up serves many jobs. Where helpers fall asleep again all the same, as
 * beside threads that spin, waking is retried at doubling distances. */
typedef struct {
    int64_t began_ns;    /* begin of the previous job */
    int rest, rest_next; /* jobs until helpers are woken, and the number used after that */
} asp_succession;
/* Record a job that begins at now_ns and return whether sleeping helpers are to be woken for it and its successors.
 * `is_awake` says that a helper is awake already. */
int asp_wakes_for_next(asp_succession *it, int64_t now_ns, int64_t serial_ns, int64_t linger_ns, int is_awake);
enum { ARRIVAL_FIRST_NS = 25000 }; /* initial estimate of the time a woken helper takes to arrive */
/* Return the mean arrival time of woken helpers after one that took took_ns. An arrival counts as twice the mean at most.
 * A helper whose core serves another process is milliseconds late, and the next one need not be: the mean exceeds the
 * duration of long jobs only if half of the helpers are late. */
int64_t asp_mean_arrival(int64_t mean_ns, int64_t took_ns);
