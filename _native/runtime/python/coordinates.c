/* Conversion of coordinates to compressed rows, and products of them; see coordinates_api.h. */
#include <stdint.h>
#include <stdlib.h>

#include "common.h"

#include "coordinates_api.h"
#include "kernels.h"
#include "matmul_api.h"
#include "pool_api.h"
#include "structure_api.h"

/* Count the entries of row i in starts[i + 1]; return as asp_coo_rows. */
static int count(int64_t n, int64_t m, int64_t nnz, const int64_t *row, const int64_t *col, int64_t step,
                 int32_t *starts)
{
    int64_t before = 0;
    int is_unordered = 0;
    memset(starts, 0, (size_t)(n + 1) * sizeof *starts);
    for (int64_t p = 0; p < nnz; ++p) {
        const int64_t i = row[p * step];
        if ((uint64_t)i >= (uint64_t)n || (uint64_t)col[p * step] >= (uint64_t)m) return -1;
        is_unordered |= i < before;
        before = i;
        ++starts[i + 1];
    }
    return is_unordered;
}

int asp_coo_rows(int64_t n, int64_t m, int64_t nnz, const int64_t *row, const int64_t *col, int64_t step,
                 int32_t *starts, int32_t *columns, int32_t *order)
{
    if (n >= INT32_MAX || m >= INT32_MAX || nnz >= INT32_MAX) return -1;
    const int found = count(n, m, nnz, row, col, step, starts);
    if (found < 0) return found;
    if (!found) {
        for (int64_t i = 0; i < n; ++i) starts[i + 1] += starts[i];
        for (int64_t p = 0; p < nnz; ++p) columns[p] = (int32_t)col[p * step];
        return found;
    }
    int32_t *next = starts + 1, sum = 0; /* next[i]: first free place of row i, at last the start of row i + 1 */
    for (int64_t i = 0; i < n; ++i) {
        const int32_t length = next[i];
        next[i] = sum;
        sum += length;
    }
    for (int64_t p = 0; p < nnz; ++p) {
        const int32_t place = next[row[p * step]]++;
        columns[place] = (int32_t)col[p * step];
        order[place] = (int32_t)p;
    }
    return found;
}

int asp_coo_mm_at(int dtype, int64_t n, int64_t m, int64_t nnz, uintptr_t row, int64_t step, int64_t pair_step,
                  uintptr_t values, uintptr_t B, int64_t ldb, uintptr_t C, int64_t n_vecs, int n_threads, int flags)
{
    if (dtype < ASP_F32 || dtype > ASP_C128 || n >= INT32_MAX || nnz >= INT32_MAX) return -1;
    const int64_t width = asp_element_bytes(dtype), *rows = (const int64_t *)row;
    char *memory = malloc((size_t)(nnz * (width + 8) + (n + 1) * 4)); /* values, columns, order, starts */
    if (!memory) return ASP_NO_MEMORY;
    int32_t *columns = (int32_t *)(memory + nnz * width), *order = columns + nnz, *starts = order + nnz;
    int status = asp_coo_rows(n, m, nnz, rows, rows + pair_step, step, starts, columns, order);
    if (status == 1) asp_gather((int)width, 0, order, (const void *)values, memory, nnz, 1);
    if (status >= 0)
        status = asp_csr_mm(dtype, 0, n, m, starts, columns, status ? (const void *)memory : (const void *)values,
                            (const void *)B, ldb, (void *)C, n_vecs, n_vecs, n_threads, flags);
    free(memory);
    return status;
}

/* Row ids that are stored at once; minimum number of entries of a thread's range; nanoseconds per entry, with page faults. */
enum { LANES = 16, MIN_ENTRIES = 8192 };
static const double ENTRY_NS = 0.4;

typedef int32_t lanes __attribute__((vector_size(4 * LANES), aligned(4), may_alias));

typedef struct {
    int64_t n;
    const int32_t *indptr;
    int32_t *rows;
} entry_rows;

/* Pool task: write the rows of the entries [at, end). Ids behind a row's end are overwritten by those of the next row, so that
 * no branch depends on the lengths of short rows. */
static void entry_rows_task(void *context, int64_t at, int64_t end)
{
    const entry_rows *job = context;
    int64_t row = 0;
    for (int64_t high = job->n; row < high;) { /* the first row that ends behind `at` */
        const int64_t middle = row + (high - row) / 2;
        if (job->indptr[middle + 1] <= at) row = middle + 1;
        else high = middle;
    }
    for (; at < end; row++) {
        const int64_t stop = asp_max(at, asp_min(job->indptr[row + 1], end)); /* invalid starts write nothing below */
        if (stop <= at + LANES && at + LANES <= end) *(lanes *)(job->rows + at) = (lanes){0} + (int32_t)row;
        else for (int64_t k = at; k < stop; k++) job->rows[k] = (int32_t)row;
        at = stop;
    }
}

void asp_entry_rows(int64_t n, uintptr_t indptr, int64_t nnz, uintptr_t rows, int n_threads)
{
    entry_rows job = {n, (const int32_t *)indptr, (int32_t *)rows};
    asp_parallel(entry_rows_task, &job, nnz, MIN_ENTRIES, nnz, n_threads, ENTRY_NS * (double)nnz);
}
