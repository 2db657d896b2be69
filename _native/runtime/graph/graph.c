/* Work distribution of the graph kernels over the thread pool. */
#include "graph_common.h"

#include "pool_api.h"

/* A job; `indptr`, n_rows and `total` (rows and nonzeros) are used by by_weight alone. */
typedef struct {
    g_range_fn work;
    const void *args, *indptr;
    int64_t n_rows, total;
    int itype;
} g_job;

/* Pool task: items as they are. */
static void by_items(void *context, int64_t begin, int64_t end)
{
    const g_job *job = context;
    job->work(job->args, begin, end);
}

/* Pool task over positions in "rows plus nonzeros": process the rows that begin in [begin, end). */
static void by_weight(void *context, int64_t begin, int64_t end)
{
    const g_job *job = context;
    const int64_t first = asp_row_at(job->itype, job->indptr, job->n_rows, begin);
    const int64_t last = end >= job->total ? job->n_rows : asp_row_at(job->itype, job->indptr, job->n_rows, end);
    if (first < last) job->work(job->args, first, last);
}

/* Run the task on the caller if it is short, otherwise in about eight ranges per thread, each of at least `least`
 * items. */
static void share(asp_task task, g_job *job, int64_t total, int64_t least, double serial_ns, int n_threads)
{
    if (total <= 0) return;
    const int allowed = n_threads > 0 ? n_threads : asp_max_threads();
    if (allowed <= 1 || serial_ns < 1e4 || total <= least) {
        task(job, 0, total);
        return;
    }
    const int64_t most = total / (8 * allowed) > least ? total / (8 * allowed) : least;
    asp_parallel(task, job, total, least, most, allowed, serial_ns);
}

void g_for_items(g_range_fn work, const void *args, int64_t n_items, int64_t least, double serial_ns, int n_threads)
{
    g_job job = {.work = work, .args = args};
    share(by_items, &job, n_items, least, serial_ns, n_threads);
}

void g_for_rows(g_range_fn work, const void *args, const void *indptr, int itype, int64_t n_rows, double n_steps,
                int n_threads)
{
    if (n_rows <= 0) return;
    const int64_t nnz = asp_index_at(itype, indptr, n_rows) - asp_index_at(itype, indptr, 0);
    g_job job = {work, args, indptr, n_rows, n_rows + nnz, itype};
    /* A step is a multiply-add, of which 4 to 16 are executed at a time. Ranges are chosen to last about 10 us. */
    const double serial_ns = 0.1 * n_steps + 2.0 * (double)n_rows;
    const double item_ns = serial_ns / (double)job.total;
    const int64_t least = 1 + (int64_t)(1e4 / (item_ns + 1e-3));
    share(by_weight, &job, job.total, least, serial_ns, n_threads);
}

uint64_t asp_probe(const void *bytes, int64_t n_bytes)
{
    const unsigned char *at = bytes;
    const int64_t n_samples = 64, step = n_bytes / n_samples < 8 ? 8 : n_bytes / n_samples;
    uint64_t print = (uint64_t)n_bytes * 0x9E3779B97F4A7C15u;
    for (int64_t offset = 0; offset + 8 <= n_bytes; offset += step) {
        uint64_t word;
        memcpy(&word, at + offset, 8);
        print = (print ^ word) * 0x9E3779B97F4A7C15u;
        print ^= print >> 29;
    }
    return print;
}
