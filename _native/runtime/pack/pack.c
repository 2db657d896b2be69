/* Packing of CSR arrays into BCSR blocks (levels i1:U,k1:C, then i0:U,k0:U in any order) and column panels
 * (k1:U,i1:U,k0:C). Everything takes O(nnz + rows + columns) by counting; only the rows of a block are merged by
 * comparisons. dtype: 0 float, 1 double, 2/3 their complex; itype: 0 int32, 1 int64. Every function returns 0, or -1
 * without scratch memory; the outputs are unspecified then. */
#include "common.h"

#include "pool_api.h"

/* Number of entries from which packing uses several threads, maximum number of parts, and time per entry of one
 * pass. */
enum { ASP_SMALL_JOB = 20000, ASP_MAX_PARTS = 64 };
#define ASP_ENTRY_NS 2.0

/* A divisor, prepared for fast division. */
typedef struct {
    int64_t by;
    int shift;      /* by == 1 << shift, or -1 */
    uint64_t magic; /* floor(2^64 / by) + 1: exact for dividends below 2^32 */
} asp_divisor;

/* Target format: r x c blocks. */
typedef struct {
    int64_t r;
    asp_divisor c;
    int64_t size, step_i, step_k; /* values per block, and steps of i0 and k0 inside it */
    const void *pos;
    void *crd;
    int bits;
} asp_blocks;

/* Passes of an asp_blocks_job. */
enum { ASP_COUNT, ASP_LIST, ASP_FILL };

/* One pass over all block rows, in parts for several threads. */
typedef struct {
    int what, itype, dtype;
    const asp_pattern *a;
    const asp_blocks *b;
    void *counts, *vals; /* blocks per block row; values */
    int64_t n_parts, n_columns, n_scratch;
    int64_t *totals, *scratch; /* per part: its number of blocks, and n_scratch zeros */
} asp_blocks_job;

static asp_divisor asp_divisor_of(int64_t by)
{
    asp_divisor d = {by, -1, by > 1 ? UINT64_MAX / (uint64_t)by + 1 : 0};
    for (int shift = 0; shift < 62; shift++)
        if (by == (int64_t)1 << shift)
            d.shift = shift;
    return d;
}

/* Return x / d for x >= 0. */
static inline int64_t asp_quotient(int64_t x, asp_divisor d)
{
    if (d.shift >= 0)
        return x >> d.shift;
#ifdef __SIZEOF_INT128__
    if ((uint64_t)x >> 32 == 0)
        return (int64_t)(((unsigned __int128)(uint64_t)x * d.magic) >> 64);
#endif
    return (int64_t)((uint64_t)x / (uint64_t)d.by);
}

/* Return crd[at] of an array of 16-, 32- or 64-bit coordinates. */
static inline int64_t asp_get(const void *crd, int bits, int64_t at)
{
    switch (bits) {
    case 16: return ((const uint16_t *)crd)[at];
    case 32: return ((const int32_t *)crd)[at];
    default: return ((const int64_t *)crd)[at];
    }
}

/* Sort n values that consist of a few ascending runs (the rows of a block) by merging neighbouring runs. `spare` has
 * room for n values. */
static void asp_merge_runs(int64_t *values, int64_t n, int64_t *spare)
{
    for (int64_t n_runs = 2; n_runs > 1;) {
        n_runs = 0;
        for (int64_t begin = 0; begin < n; n_runs++) {
            int64_t middle = begin + 1, end;
            while (middle < n && values[middle - 1] <= values[middle])
                middle++;
            for (end = middle + (middle < n); end < n && values[end - 1] <= values[end];)
                end++;
            if (middle < end) {
                int64_t a = 0, b = middle, to = begin;
                const int64_t n_first = middle - begin;
                memcpy(spare, values + begin, (size_t)n_first * sizeof *values);
                while (a < n_first)
                    values[to++] = b < end && values[b] < spare[a] ? values[b++] : spare[a++];
            }
            begin = end;
        }
    }
}

#define BODY "pack_body.h"
#include "each_index.h"

/* Pool task: process the parts [begin, end). */
static void asp_do_parts(void *context, int64_t begin, int64_t end)
{
    asp_blocks_job *job = context;
    for (int64_t part = begin; part < end; part++)
        ASP_BY_INDEX(job->itype, do_part, job, part, job->scratch + part * job->n_scratch);
}

/* Process all parts of `job`; return -1 without memory. n_scratch is the scratch memory of a part, in units of the
 * number of block columns. */
static int asp_run_blocks(asp_blocks_job *job, int64_t n_scratch, int n_threads)
{
    const asp_pattern *a = job->a;
    const int64_t nnz = asp_index_at(job->itype, a->indptr, a->n_rows);
    job->n_columns = (a->n_cols + job->b->c.by - 1) / job->b->c.by + 1;
    job->n_scratch = n_scratch * job->n_columns;
    job->n_parts = n_threads > 1 && nnz > ASP_SMALL_JOB ? n_threads : 1;
    job->n_parts = job->n_parts < ASP_MAX_PARTS ? job->n_parts : ASP_MAX_PARTS;
    job->scratch = calloc((size_t)(job->n_parts * job->n_scratch), sizeof *job->scratch);
    if (!job->scratch)
        return -1;
    asp_parallel(asp_do_parts, job, job->n_parts, 1, 1, n_threads, ASP_ENTRY_NS * (double)nnz);
    free(job->scratch);
    return 0;
}

/* Count the nonempty r x c blocks; `pos` (ceil(n_rows / r) + 1 elements of the index type, or NULL) receives where
 * each block row begins. Returns -1 without memory. */
int64_t asp_count_blocks(int itype, int64_t n_rows, int64_t n_cols, const void *indptr, const void *indices, int64_t r,
                         int64_t c, void *pos, int n_threads)
{
    const asp_pattern a = {n_rows, n_cols, indptr, indices, NULL};
    const asp_blocks b = {.r = r, .c = asp_divisor_of(c)};
    int64_t totals[ASP_MAX_PARTS] = {0}, total = 0;
    asp_blocks_job job = {.what = ASP_COUNT, .itype = itype, .a = &a, .b = &b, .counts = pos, .totals = totals};
    if (asp_run_blocks(&job, 1, n_threads))
        return -1;
    for (int64_t part = 0; part < job.n_parts; part++)
        total += totals[part];
    if (pos)
        ASP_BY_INDEX(itype, sum_up, pos, (n_rows + r - 1) / r);
    return total;
}

/* Write the block columns, given `pos` from asp_count_blocks. */
int asp_list_blocks(int itype, int64_t n_rows, int64_t n_cols, const void *indptr, const void *indices, int64_t r,
                    int64_t c, int bits, const void *pos, void *crd, int n_threads)
{
    const asp_pattern a = {n_rows, n_cols, indptr, indices, NULL};
    const asp_blocks b = {.r = r, .c = asp_divisor_of(c), .pos = pos, .crd = crd, .bits = bits};
    asp_blocks_job job = {.what = ASP_LIST, .itype = itype, .a = &a, .b = &b};
    return asp_run_blocks(&job, 3, n_threads); /* stamps, block columns found, spare room */
}

/* Write the values of blocks whose structure exists: value (i0, k0) of block q is at q * size + i0 * step_i + k0 *
 * step_k. */
int asp_fill_blocks(int dtype, int itype, int64_t n_rows, int64_t n_cols, const void *indptr, const void *indices,
                    const void *data, int64_t r, int64_t c, int64_t size, int64_t step_i, int64_t step_k, int bits,
                    const void *pos, const void *crd, void *vals, int n_threads)
{
    const asp_pattern a = {n_rows, n_cols, indptr, indices, data};
    const asp_blocks b = {r, asp_divisor_of(c), size, step_i, step_k, pos, (void *)crd, bits};
    asp_blocks_job job = {.what = ASP_FILL, .itype = itype, .dtype = dtype, .a = &a, .b = &b, .vals = vals};
    return asp_run_blocks(&job, 1, n_threads);
}

/* Compute pos of column panels of `split` columns: n_panels * n_rows + 1 elements of the index type. */
int asp_count_panels(int itype, int64_t n_rows, int64_t n_cols, const void *indptr, const void *indices, int64_t split,
                     void *pos)
{
    const asp_pattern a = {n_rows, n_cols, indptr, indices, NULL};
    const int64_t n_panels = (n_cols + split - 1) / split;
    ASP_BY_INDEX(itype, count_panels, &a, asp_divisor_of(split), n_panels, pos);
    return 0;
}

/* Write panel-relative columns (unless crd is NULL) and values, with each row's entries in their own order. */
int asp_fill_panels(int dtype, int itype, int64_t n_rows, int64_t n_cols, const void *indptr, const void *indices,
                    const void *data, int64_t split, const void *pos, int bits, void *crd, void *vals)
{
    const asp_pattern a = {n_rows, n_cols, indptr, indices, data};
    const int64_t n_panels = (n_cols + split - 1) / split;
    int64_t *next = malloc((size_t)(n_panels + 1) * sizeof *next);
    if (!next)
        return -1;
    ASP_BY_INDEX(itype, fill_panels, dtype, &a, asp_divisor_of(split), n_panels, pos, next, bits, crd, vals);
    free(next);
    return 0;
}
