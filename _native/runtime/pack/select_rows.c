/* Selection of compressed rows by numbers, or by a first number and a step.
 *
 * The threads divide the result as a product with it does (matmul.c), so that each finds the rows that it multiplies in
 * its own cache. With one writing thread, the others fetch their rows from its core, and the next result is written to
 * lines that their cores hold: A[::2] @ x of 100,000 entries took 1.2 to 3 times as long.
 */
#include "kernels.h"

#include "pool_api.h"
#include "select_rows_api.h"

/* Minimum duration of a range, as in matmul.c; estimated time per selected row and entry. */
enum { RANGE_NS = 4000 };
#define ROW_NS 4.0
#define ENTRY_NS 0.5

typedef struct {
    int itype;
    int64_t element_bytes, n_rows, n, total; /* rows of the source; rows, and rows plus entries, of the result */
    const void *indptr, *to_indptr;
    const char *indices, *data;
    const int64_t *numbers; /* or NULL: first, first + step, ... */
    int64_t first, step;
    char *to_indices, *to_data;
} selection;

ASP_INLINE int64_t number_of(const int64_t *numbers, int64_t first, int64_t step, int64_t n_rows, int64_t k)
{
    const int64_t number = numbers ? numbers[k] : first + k * step;
    return number < 0 ? number + n_rows : number;
}

/* Write the row starts of the selected rows to to_indptr (n + 1 elements) and return their number of entries; -1 where
 * a number is outside [-n_rows, n_rows); -2 where a row is not within n_stored entries, or the index type cannot count
 * the entries. */
int64_t asp_count_selected(int itype, int64_t n_rows, const void *indptr, int64_t n_stored, const int64_t *numbers,
                           int64_t first, int64_t step, int64_t n, void *to_indptr)
{
    int64_t nnz = 0;
    const int64_t most = itype == ASP_I32 ? INT32_MAX : INT64_MAX;
    for (int64_t k = 0; k <= n; k++) {
        if (itype == ASP_I32) ((int32_t *)to_indptr)[k] = (int32_t)nnz;
        else ((int64_t *)to_indptr)[k] = nnz;
        if (k == n) break;
        const int64_t row = number_of(numbers, first, step, n_rows, k);
        if (row < 0 || row >= n_rows) return -1;
        const int64_t begin = asp_index_at(itype, indptr, row), end = asp_index_at(itype, indptr, row + 1);
        if (begin < 0 || end < begin || end > n_stored || end - begin > most - nnz) return -2;
        nnz += end - begin;
    }
    return nnz;
}

/* Pool task: copy the rows that begin in [begin, end) of "rows plus entries". */
static void copy_rows(void *context, int64_t begin, int64_t end)
{
    const selection *job = context;
    const int itype = job->itype;
    const int64_t index_bytes = itype == ASP_I32 ? 4 : 8;
    const int64_t last = end >= job->total ? job->n : asp_row_at(itype, job->to_indptr, job->n, end);
    for (int64_t k = asp_row_at(itype, job->to_indptr, job->n, begin); k < last; k++) {
        const int64_t row = number_of(job->numbers, job->first, job->step, job->n_rows, k);
        const int64_t from = asp_index_at(itype, job->indptr, row), to = asp_index_at(itype, job->to_indptr, k);
        const int64_t length = asp_index_at(itype, job->to_indptr, k + 1) - to;
        memcpy(job->to_indices + to * index_bytes, job->indices + from * index_bytes, (size_t)(length * index_bytes));
        memcpy(job->to_data + to * job->element_bytes, job->data + from * job->element_bytes,
               (size_t)(length * job->element_bytes));
    }
}

/* Copy the selected rows, whose starts asp_count_selected has written, on at most n_threads threads. */
int asp_copy_selected(int itype, int element_bytes, int64_t n_rows, const void *indptr, const void *indices, const void *data,
                      const int64_t *numbers, int64_t first, int64_t step, int64_t n, const void *to_indptr,
                      void *to_indices, void *to_data, int n_threads)
{
    const int64_t nnz = asp_index_at(itype, to_indptr, n);
    selection job = {itype, element_bytes, n_rows, n, n + nnz, indptr, to_indptr, indices, data, numbers, first, step,
                     to_indices, to_data};
    const double serial_ns = ROW_NS * (double)n + ENTRY_NS * (double)nnz;
    const int64_t least = asp_max(1, (int64_t)((double)job.total * RANGE_NS / (serial_ns + 1)));
    asp_parallel(copy_rows, &job, job.total, least, asp_max(least, job.total), n_threads > 0 ? n_threads : asp_max_threads(),
                 serial_ns);
    return ASP_OK;
}
