/* Packing of CSR arrays into slices of `lanes` rows (SELL-C-sigma; Kreutzer et al. 2014): a slot of a slice holds one
 * entry of every row. Where the entries of a slice lie on few diagonals, a slot stores one column, that of lane 0,
 * instead of one per lane. Codes of dtype: 0 float, 1 double, 2/3 their complex, 4 one-byte indices of a table of values,
 * which cannot be added; of itype: 0 int32, 1 int64. Rows and columns are below 2^31.
 *
 * first[s]                first row of slice s if its rows are consecutive, else the number of its list in `rows`
 * rows[list * lanes]      row of each lane (INT32_MAX: none). first and rows are NULL where slice s has the rows from
 *                         s * lanes on (sigma 1)
 * pos[s] .. pos[s + 1]    slots of slice s, in the index type
 * begin[s]                where its columns begin, in units of `bits` bits
 * what[s]                 base << 3 | in_order << 2 | kind. kind 0: columns of 32 bits; 1: of 16 bits, relative to
 *                         base; 2: one column of 32 bits per slot. in_order: all lanes have rows, which are consecutive
 * vals[pos * lanes]       values of a slot
 *
 * Functions return -1 without scratch memory; the outputs are unspecified then. */
#include "pack_slices.h"
#include "pool_api.h"
#include "slices_api.h"

/* Number of entries from which packing uses several threads, and estimated times per entry, sorted row, and scanned
 * entry. */
enum { ASP_SMALL_JOB = 20000, ASP_ENCODED = 4 };
#define ASP_ENTRY_NS 2.5
#define ASP_SORTED_ROW_NS 6.0
#define ASP_SEEN_ENTRY_NS 0.4 /* contiguous scan */

static int asp_by_key(const void *a, const void *b)
{
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

#define BODY "pack_slices_body.h"
#include "each_index.h"
#define BODY "fill_slices_body.h"
#include "each_index.h"

/* Pool task: count the diagonals of the parts [begin, end). */
static void asp_count_parts(void *context, int64_t begin, int64_t end)
{
    asp_layout_job *job = context;
    const int64_t lanes = job->how->lanes, n = (job->a->n_rows + lanes - 1) / lanes;
    for (int64_t part = begin; part < end; part++) {
        int32_t *const firsts = job->firsts + part * job->n_firsts;
        ASP_BY_INDEX(job->itype, count_groups, job, n * part / job->n_parts, n * (part + 1) / job->n_parts, firsts);
    }
}

/* Pool task: compute slots and kind of the slices [begin, end). */
static void asp_measure_parts(void *context, int64_t begin, int64_t end)
{
    ASP_BY_INDEX(((asp_layout_job *)context)->itype, measure_slices, context, begin, end);
}

/* Pool task: sort the windows of the parts [begin, end). */
static void asp_order_parts(void *context, int64_t begin, int64_t end)
{
    asp_layout_job *job = context;
    const int64_t n = job->n_windows;
    for (int64_t part = begin; part < end; part++) {
        const size_t room = asp_sorting_bytes(job->how);
        asp_sorting sorting = asp_sorting_at(job->how, job->sorting + (size_t)part * room);
        ASP_BY_INDEX(job->itype, order_windows, job, n * part / job->n_parts, n * (part + 1) / job->n_parts, &sorting);
    }
}

/* Pool task: list the rows of the windows [begin, end). */
static void asp_list_parts(void *context, int64_t begin, int64_t end)
{
    ASP_BY_INDEX(((asp_layout_job *)context)->itype, list_windows, context, begin, end);
}

/* Return whether columns must be read to decide which slices store them in 16 bits. */
static int asp_looks(const asp_layout_job *job) { return job->how->bits == 16 && job->a->n_cols > UINT16_MAX + 1; }

/* Determine the rows of every slice. */
static void asp_list_rows(asp_layout_job *job, int64_t nnz, int n_threads)
{
    const double rows_ns =
        ASP_SORTED_ROW_NS * (double)job->a->n_rows + (asp_looks(job) ? ASP_SEEN_ENTRY_NS * (double)nnz : 0.0);
    ASP_BY_INDEX(job->itype, divide_rows, job);
    if (job->n_windows == 0)
        return;
    asp_parallel(asp_order_parts, job, job->n_parts, 1, 1, n_threads, rows_ns);
    for (int64_t at = 0; at < job->n_windows; at++) {
        job->windows[at].lists = job->out->n_listed;
        job->out->n_listed += job->windows[at].n_listed;
    }
    asp_parallel(asp_list_parts, job, job->n_windows, 1, 1, n_threads, 0.2 * rows_ns);
}

/* Compute the whole layout, given its scratch memory. */
static void asp_lay_out(asp_layout_job *job, int64_t nnz, int n_threads)
{
    const int64_t n_groups = (job->a->n_rows + job->how->lanes - 1) / job->how->lanes;
    const double entries_ns = ASP_ENTRY_NS * (double)nnz;
    if (job->how->diagonals)
        asp_parallel(asp_count_parts, job, job->n_parts, 1, 1, n_threads, entries_ns);
    asp_list_rows(job, nnz, n_threads);
    const int64_t piece = job->n_parts > 1 ? (n_groups + 4 * job->n_parts - 1) / (4 * job->n_parts) : n_groups + 1;
    asp_parallel(asp_measure_parts, job, job->out->n_slices, piece > 0 ? piece : 1, piece > 0 ? piece : 1, n_threads,
                 asp_looks(job) ? entries_ns : (double)job->a->n_rows);
    ASP_BY_INDEX(job->itype, place_slices, job);
}

/* Return the maximum number of entries of a whole group of rows. */
static int64_t asp_longest_group(const asp_layout_job *job)
{
    const int64_t lanes = job->how->lanes;
    int64_t longest = 0;
    for (int64_t row = 0, begin = 0, end; row + lanes <= job->a->n_rows; row += lanes, begin = end) {
        end = asp_index_at(job->itype, job->a->indptr, row + lanes);
        if (end - begin > longest)
            longest = end - begin;
    }
    return longest;
}

/* Compute rows, slots and kind of every slice on up to n_threads threads. This takes passes over the row lengths, and one
 * over the entries if `diagonals` are searched for, or if columns are to be stored in 16 bits and there are more than
 * 2^16. The arrays have ceil(n_rows / lanes) elements per slice, and pos and begin one more. Returns the number of
 * slices whose rows are listed, or -1 without memory. */
int64_t asp_slices_lay_out(int itype, int64_t n_rows, int64_t n_cols, const void *indptr, const void *indices,
                           int64_t lanes, int64_t sigma, int diagonals, int bits, int32_t *first, int32_t *rows,
                           void *pos, int64_t *begin, int64_t *what, int n_threads)
{
    const asp_pattern a = {n_rows, n_cols, indptr, indices, NULL};
    const asp_slicing how = {lanes, sigma, diagonals, bits};
    const int64_t nnz = asp_index_at(itype, indptr, n_rows);
    asp_layout out = {.first = first, .rows = rows, .pos = pos, .begin = begin, .what = what};
    asp_layout_job job = {.a = &a, .how = &how, .out = &out, .itype = itype, .n_parts = 1};
    if (n_threads > 1 && nnz > ASP_SMALL_JOB)
        job.n_parts = n_threads;
    job.n_diagonals = malloc((size_t)(n_rows / lanes + 1) * sizeof *job.n_diagonals);
    job.n_firsts = diagonals ? asp_most_diagonals(asp_longest_group(&job), lanes) + 1 : 1;
    job.firsts = malloc((size_t)(job.n_parts * job.n_firsts) * sizeof *job.firsts);
    int has_room = job.n_diagonals && job.firsts;
    if (sigma > 1) {
        job.windows = malloc((size_t)(n_rows / asp_window_rows(&how) + 1) * sizeof *job.windows);
        job.order = malloc((size_t)(n_rows + 1) * sizeof *job.order);
        job.sorting = malloc((size_t)job.n_parts * asp_sorting_bytes(&how));
        has_room = has_room && job.windows && job.order && job.sorting;
    }
    if (has_room)
        asp_lay_out(&job, nnz, n_threads);
    free(job.n_diagonals);
    free(job.firsts);
    free(job.windows);
    free(job.order);
    free(job.sorting);
    return has_room ? out.n_listed : -1;
}

static void asp_fill_parts(void *context, int64_t begin, int64_t end)
{
    asp_slices_job *job = context;
    for (int64_t part = begin; part < end; part++) ASP_BY_INDEX(job->itype, fill_part, job, part);
}

/* Write the values, and the columns unless crd_known, of slices whose layout is known, on up to n_threads threads. */
int asp_slices_fill(int dtype, int itype, int64_t n_rows, int64_t n_cols, const void *indptr, const void *indices,
                    const void *data, int64_t lanes, int bits, const int32_t *first, const int32_t *rows,
                    const void *pos, const int64_t *begin, const int64_t *what, int crd_known, void *crd, void *vals,
                    int n_threads)
{
    const asp_pattern a = {n_rows, n_cols, indptr, indices, data};
    const asp_sliced s = {lanes, bits, first, rows, pos, begin, what, crd};
    const int64_t nnz = asp_index_at(itype, indptr, n_rows);
    const int64_t n_parts = n_threads > 1 && nnz > ASP_SMALL_JOB ? n_threads : 1;
    asp_slices_job job = {&a, &s, dtype, itype, crd_known, vals, n_parts};
    asp_parallel(asp_fill_parts, &job, n_parts, 1, 1, n_threads, ASP_ENTRY_NS * (double)nnz);
    return 0;
}
