/* Cycles of jobs that come again and again; used by pool.c, which holds its lock meanwhile. */
enum { BLOCK_SETTLES = 2, BLOCK_CYCLES = 6, BLOCK_CALLS = BLOCK_SETTLES + BLOCK_CYCLES, TRIAL_BLOCKS = 4 };

typedef struct asp_cycle {
    uint64_t key;
    int64_t begin_ns, own_ns; /* when the job began last, and how long it lasted when it was shared last */
    int64_t usual_ns, judged_ns; /* cycles of late, and when a trial was last ended or asked for */
    int is_alone;             /* the way that serves */
    int rest, rest_next;      /* calls until the next trial; and after it */
    int step;                 /* calls of this trial */
    int n[2];
    int64_t lasted_ns[2][TRIAL_BLOCKS / 2 * BLOCK_CYCLES]; /* cycles as now, and the other way */
} asp_cycle;

/* The place of a job among those that are watched; NULL while this thread's are not. */
asp_cycle *asp_watched(const void *task, int64_t n_items, int n_threads);
/* The job begins: whether it stays on the calling thread. */
int asp_stays_alone(asp_cycle *it, int64_t now_ns);
