/* Cycles of jobs that come again and again; used by pool.c, which holds its lock meanwhile. */
enum { LINGER_NS = 60000 };      /* a helper looks for the next job this long before it sleeps */
enum { WAKE_NS = 60000 };        /* ... and has arrived so long after it was woken */
enum { LINGER_REST_MAX = 128 }; /* jobs after which what was in vain, lingering or waking, is tried again, at most */
enum { BLOCK_SKIPPED = 2, BLOCK_INTERVALS = 6, BLOCK_CALLS = BLOCK_SKIPPED + BLOCK_INTERVALS, TRIAL_BLOCKS = 4 };

typedef struct asp_call_interval {
    uint64_t key;
    int64_t begin_ns, own_ns; /* when the job began last, and how long it lasted when it was shared last */
    int64_t usual_ns, judged_ns; /* cycles of late, and when a trial was last ended or asked for */
    int is_alone;             /* the way that serves */
    int was_alone, is_waking; /* the call before stayed alone for this rule; this one is the first that does not */
    int64_t woken_ns;         /* when such a call began last */
    int rest, rest_next;      /* calls until the next trial; and after it */
    int step;                 /* calls of this trial */
    int n[2];
    int64_t lasted_ns[2][TRIAL_BLOCKS / 2 * BLOCK_INTERVALS]; /* cycles as now, and the other way */
} asp_call_interval;

/* The place of a job among those that are watched; NULL while this thread's are not. */
asp_call_interval *asp_watched(const void *task, int64_t n_items, int n_threads);
/* The job begins: whether it stays on the calling thread. */
int asp_stays_alone(asp_call_interval *it, int64_t now_ns);
/* The call that began last was to be shared and found no helper: it tells nothing about sharing. A trial ends with it,
 * unless helpers were woken just now. */
void asp_found_no_helper(asp_call_interval *it);

/* Jobs that follow each other: whether helpers that sleep are woken for a job too short to wait for them, because more follow
 * at once and they stay awake then. One that arrived late after a pause would else count for hundreds of jobs. Where they
 * fall asleep again, as beside threads that spin, it is tried ever more rarely. */
typedef struct {
    int64_t began_ns;    /* the job before */
    int rest, rest_next; /* jobs until they are woken; and after it */
} asp_succession;
int asp_wakes_for_next(asp_succession *it, int64_t now_ns, int64_t serial_ns, int64_t linger_ns, int is_awake);
