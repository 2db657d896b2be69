/* Products of a block of vectors with one vector (see basis_api.h).
 *
 * Complex vectors are treated as vectors of twice as many reals. The real part of sum conj(v) w is the dot product of
 * these reals; the imaginary part is the dot product of v with w rotated: (re, im) becomes (im, -re).
 */
#include "graph_common.h"

#include "basis_api.h"
#include "pool_api.h"

enum {
    CHUNK = 1024,     /* reals per chunk: four vectors of doubles fit the L1 cache beside the rows */
    MAX_RIGHT = 4,   /* right-hand vectors of dot products: w and u, and their rotations if they are complex */
    LOCAL_SUMS = 512, /* number of partial sums that are kept on the stack */
    ALONE = 2,        /* number of chunks up to which one thread computes alone */
};

/* Arguments of the range functions of basis_body.h. */
typedef struct {
    const char *V, *w, *u;
    char *out;
    const double *c;
    double *sums; /* n_sums per chunk */
    double scale;
    int64_t n, ldv, n_rows, n_right, n_sums; /* n and ldv in reals */
    int is_complex;
} b_job;

#define G_INDEX_FREE
#define G_BODY "basis_body.h"
#include "graph_each.h"

static const g_range_fn dots_table[][2] = G_TABLE(basis_dots);
static const g_range_fn update_table[][2] = G_TABLE(basis_update);

typedef struct {
    g_range_fn work;
    const b_job *job;
} b_task;

static void run(void *context, int64_t begin, int64_t end)
{
    const b_task *task = context;
    task->work(task->job, begin, end);
}

/* Process all chunks and add their sums in the order of the chunks; `total` receives n_sums sums. */
static int sweep(const g_range_fn table[][2], b_job *job, int dtype, double *total, int n_threads)
{
    const int64_t n_chunks = (job->n + CHUNK - 1) / CHUNK, n_sums = job->n_sums;
    double local[LOCAL_SUMS];
    job->sums = n_chunks * n_sums <= LOCAL_SUMS ? local : malloc((size_t)(n_chunks * n_sums) * sizeof(double));
    if (!job->sums) return ASP_NO_MEMORY;
    const g_range_fn work = table[asp_isa()][dtype & 1];
    if (n_chunks <= ALONE || n_threads == 1) work(job, 0, n_chunks);
    else {
        b_task task = {work, job};
        const double bytes = (double)job->n * (double)(job->n_rows + 3) * (dtype & 1 ? 8 : 4);
        asp_parallel(run, &task, n_chunks, 1, asp_max(1, n_chunks / 8), n_threads > 0 ? n_threads : asp_max_threads(),
                     bytes / 16); /* ns: 16 bytes per ns from the L2 cache */
    }
    for (int64_t j = 0; j < n_sums; j++) total[j] = 0;
    for (int64_t chunk = 0; chunk < n_chunks; chunk++)
        for (int64_t j = 0; j < n_sums; j++) total[j] += job->sums[chunk * n_sums + j];
    if (job->sums != local) free(job->sums);
    return ASP_OK;
}

int asp_basis_dots(int dtype, int64_t n, int64_t n_rows, const void *V, int64_t ldv, const void *w, const void *u,
                   double *dots, int n_threads)
{
    if (dtype < ASP_F32 || dtype > ASP_C128) return ASP_BAD_CODE;
    const int is_complex = dtype >= ASP_C64, per = 1 + is_complex;
    b_job job = {.V = V, .w = w, .u = u, .n = per * n, .ldv = per * ldv, .n_rows = n_rows, .is_complex = is_complex};
    job.n_right = per * (u ? 2 : 1);
    job.n_sums = (n_rows + 1) * job.n_right;
    return sweep(dots_table, &job, dtype, dots, n_threads);
}

int asp_basis_update(int dtype, int64_t n, int64_t n_rows, const void *V, int64_t ldv, const double *c, double scale,
                     const void *w, void *out, double *norm2, int n_threads)
{
    if (dtype < ASP_F32 || dtype > ASP_C128) return ASP_BAD_CODE;
    const int is_complex = dtype >= ASP_C64, per = 1 + is_complex;
    b_job job = {.V = V, .w = w, .out = out, .c = c, .scale = scale, .n = per * n, .ldv = per * ldv,
                 .n_rows = n_rows, .n_sums = 1, .is_complex = is_complex};
    return sweep(update_table, &job, dtype, norm2, n_threads);
}
