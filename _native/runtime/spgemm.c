/* Sparse times sparse, Gustavson's algorithm row by row, in one numeric pass on several threads.
 *
 * The multiplications of each row are counted first: their prefix sums cut the rows into ranges of equal work and bound
 * the entries of a range, so that its result can be written without asking for the size of each row (SciPy's symbolic
 * pass costs a third of the product). Ranges go to segments of memory of their own and are copied together at the end,
 * each freed as soon as it is copied. Compiled for the baseline instruction set on purpose: without fused multiply-add
 * the sums are SciPy's to the last bit.
 */
#include "spgemm.h"

#include "pool_api.h"
#include "spgemm_api.h"

typedef struct {
    float re, im;
} sg_c64;
typedef struct {
    double re, im;
} sg_c128;

#define SG_REAL(s, a, b) ((s) + (a) * (b))
#define SG_NONZERO_REAL(s) ((s) != 0)
#define SG_NONZERO_COMPLEX(s) ((s).re != 0 || (s).im != 0)

ASP_INLINE sg_c64 sg_muladd_c64(sg_c64 s, sg_c64 a, sg_c64 b)
{
    return (sg_c64){s.re + (a.re * b.re - a.im * b.im), s.im + (a.re * b.im + a.im * b.re)};
}
ASP_INLINE sg_c128 sg_muladd_c128(sg_c128 s, sg_c128 a, sg_c128 b)
{
    return (sg_c128){s.re + (a.re * b.re - a.im * b.im), s.im + (a.re * b.im + a.im * b.re)};
}

#define SG_NAME f32_i32
#define SG_T float
#define SG_I int32_t
#define SG_STAMP uint32_t
#define SG_ZERO 0
#define SG_MULADD SG_REAL
#define SG_NONZERO SG_NONZERO_REAL
#include "spgemm_body.h"
#define SG_NAME f32_i64
#define SG_T float
#define SG_I int64_t
#define SG_STAMP uint64_t
#define SG_ZERO 0
#define SG_MULADD SG_REAL
#define SG_NONZERO SG_NONZERO_REAL
#include "spgemm_body.h"
#define SG_NAME f64_i32
#define SG_T double
#define SG_I int32_t
#define SG_STAMP uint32_t
#define SG_ZERO 0
#define SG_MULADD SG_REAL
#define SG_NONZERO SG_NONZERO_REAL
#include "spgemm_body.h"
#define SG_NAME f64_i64
#define SG_T double
#define SG_I int64_t
#define SG_STAMP uint64_t
#define SG_ZERO 0
#define SG_MULADD SG_REAL
#define SG_NONZERO SG_NONZERO_REAL
#include "spgemm_body.h"
#define SG_NAME c64_i32
#define SG_T sg_c64
#define SG_I int32_t
#define SG_STAMP uint32_t
#define SG_ZERO ((sg_c64){0, 0})
#define SG_MULADD sg_muladd_c64
#define SG_NONZERO SG_NONZERO_COMPLEX
#include "spgemm_body.h"
#define SG_NAME c64_i64
#define SG_T sg_c64
#define SG_I int64_t
#define SG_STAMP uint64_t
#define SG_ZERO ((sg_c64){0, 0})
#define SG_MULADD sg_muladd_c64
#define SG_NONZERO SG_NONZERO_COMPLEX
#include "spgemm_body.h"
#define SG_NAME c128_i32
#define SG_T sg_c128
#define SG_I int32_t
#define SG_STAMP uint32_t
#define SG_ZERO ((sg_c128){0, 0})
#define SG_MULADD sg_muladd_c128
#define SG_NONZERO SG_NONZERO_COMPLEX
#include "spgemm_body.h"
#define SG_NAME c128_i64
#define SG_T sg_c128
#define SG_I int64_t
#define SG_STAMP uint64_t
#define SG_ZERO ((sg_c128){0, 0})
#define SG_MULADD sg_muladd_c128
#define SG_NONZERO SG_NONZERO_COMPLEX
#include "spgemm_body.h"

typedef struct {
    sg_rows_fn rows;
    size_t value_bytes, accumulator_bytes;
} sg_kind;

#define SG_ROW(D, T) \
    {{sg_rows_##D##_i32_fn, sizeof(T), sizeof(sg_cell_##D##_i32_t)}, {sg_rows_##D##_i64_fn, sizeof(T), sizeof(sg_cell_##D##_i64_t)}}
static const sg_kind sg_kinds[4][2] = {SG_ROW(f32, float), SG_ROW(f64, double), SG_ROW(c64, sg_c64), SG_ROW(c128, sg_c128)};

enum { RANGE_WORK = 1 << 17, LEAST_WORK = 1 << 12 };
static const double NS_PER_MULTIPLICATION = 2.0;

/* -- work of each row ---------------------------------------------------------------------------------------------- */

#define SG_COUNT(NAME, I)                                                     \
    static void NAME(void *context, int64_t row, int64_t row_end)             \
    {                                                                         \
        const sg_job *job = context;                                          \
        const I *Ap = job->Ap, *Aj = job->Aj, *Bp = job->Bp;                  \
        for (int64_t i = row; i < row_end; ++i) {                             \
            int64_t work = 0;                                                 \
            for (int64_t p = Ap[i]; p < Ap[i + 1]; ++p)                       \
                work += (int64_t)Bp[Aj[p] + 1] - (int64_t)Bp[Aj[p]];          \
            job->work[i + 1] = work;                                          \
        }                                                                     \
    }
SG_COUNT(sg_count_i32, int32_t)
SG_COUNT(sg_count_i64, int64_t)

static void sg_prefix_sums(int64_t *counts, int64_t n)
{
    for (int64_t i = 0; i < n; ++i) counts[i + 1] += counts[i];
}

/* First row whose multiplications start at or after `item`. */
static int64_t sg_row_at(const sg_job *job, int64_t item)
{
    int64_t low = 0, high = job->n_rows;
    while (low < high) {
        int64_t middle = low + (high - low) / 2;
        if (job->work[middle] < item) low = middle + 1;
        else high = middle;
    }
    return low;
}

/* -- numeric pass -------------------------------------------------------------------------------------------------- */

static void *sg_take_accumulators(sg_job *job)
{
    for (int k = 0; k < job->n_spare; ++k) {
        void *found = atomic_exchange(&job->spare[k], NULL);
        if (found) return found;
    }
    return calloc((size_t)job->n_cols + 1, job->accumulator_bytes); /* stamps start at 0, which is no row's */
}

static void sg_give_accumulators(sg_job *job, void *accumulators)
{
    for (int k = 0; k < job->n_spare; ++k) {
        void *empty = NULL;
        if (atomic_compare_exchange_strong(&job->spare[k], &empty, accumulators)) return;
    }
    free(accumulators);
}

static void sg_shrink(void **block, size_t bytes)
{
    void *smaller = realloc(*block, bytes ? bytes : 1);
    if (smaller) *block = smaller;
}

/* Rows whose first multiplication lies in [begin, end). */
static void sg_multiply(void *context, int64_t begin, int64_t end)
{
    sg_job *job = context;
    sg_segment segment = {.row = sg_row_at(job, begin), .row_end = sg_row_at(job, end)};
    /* rows without work at the very end belong to the last range: work[row] == total for them */
    if (end == job->work[job->n_rows]) segment.row_end = job->n_rows;
    if (segment.row >= segment.row_end || atomic_load(&job->failed)) return;
    int64_t bound = 1; /* one more than can be kept: every multiplication writes behind the last entry */
    for (int64_t i = segment.row; i < segment.row_end; ++i) bound += asp_min(job->work[i + 1] - job->work[i], job->n_cols);
    void *accumulators = sg_take_accumulators(job);
    segment.j = malloc((size_t)bound * job->index_bytes);
    segment.x = malloc((size_t)bound * job->value_bytes);
    const int64_t slot = atomic_fetch_add(&job->n_segments, 1);
    if (!accumulators || !segment.j || !segment.x || slot >= job->max_segments) {
        free(accumulators), free(segment.j), free(segment.x);
        atomic_store(&job->failed, 1);
        if (slot < job->max_segments) job->segments[slot] = (sg_segment){0};
        return;
    }
    job->rows(job, &segment, accumulators);
    sg_give_accumulators(job, accumulators);
    sg_shrink(&segment.j, (size_t)segment.n * job->index_bytes);
    sg_shrink(&segment.x, (size_t)segment.n * job->value_bytes);
    job->segments[slot] = segment;
}

void asp_spgemm_drop(void *handle)
{
    sg_job *job = handle;
    if (!job) return;
    const int64_t n_segments = job->segments ? asp_min(atomic_load(&job->n_segments), job->max_segments) : 0;
    for (int64_t s = 0; s < n_segments; ++s) free(job->segments[s].j), free(job->segments[s].x);
    for (int k = 0; job->spare && k < job->n_spare; ++k) free(atomic_load(&job->spare[k]));
    free(job->segments), free(job->spare), free(job->work), free(job->row_nnz), free(job);
}

static int sg_prepare(sg_job *job)
{
    job->work = calloc((size_t)job->n_rows + 1, sizeof *job->work);
    job->row_nnz = calloc((size_t)job->n_rows + 1, sizeof *job->row_nnz);
    job->n_spare = job->n_threads;
    job->spare = calloc((size_t)job->n_spare, sizeof *job->spare);
    if (!job->work || !job->row_nnz || !job->spare) return 0;
    asp_parallel(job->itype == ASP_I32 ? sg_count_i32 : sg_count_i64, job, job->n_rows, 256, 1 << 14, job->n_threads,
                 2.0 * (double)job->n_rows);
    sg_prefix_sums(job->work, job->n_rows);
    /* asp_parallel never makes a range smaller than LEAST_WORK but the last */
    job->max_segments = job->work[job->n_rows] / LEAST_WORK + 2;
    job->segments = calloc((size_t)job->max_segments, sizeof *job->segments);
    return job->segments != NULL;
}

void *asp_spgemm_begin(int dtype, int itype, int64_t n_rows, int64_t n_cols, const void *Ap, const void *Aj,
                       const void *Ax, const void *Bp, const void *Bj, const void *Bx, int n_threads, int64_t *nnz)
{
    if (dtype < 0 || dtype > 3 || itype < 0 || itype > 1) return NULL;
    sg_job *job = calloc(1, sizeof *job);
    if (!job) return NULL;
    const sg_kind *kind = &sg_kinds[dtype][itype];
    job->itype = itype, job->n_threads = n_threads > 0 ? n_threads : asp_max_threads();
    job->value_bytes = kind->value_bytes, job->accumulator_bytes = kind->accumulator_bytes, job->rows = kind->rows;
    job->index_bytes = itype == ASP_I32 ? 4 : 8;
    job->n_rows = n_rows, job->n_cols = n_cols;
    job->Ap = Ap, job->Aj = Aj, job->Ax = Ax, job->Bp = Bp, job->Bj = Bj, job->Bx = Bx;
    if (!sg_prepare(job)) {
        asp_spgemm_drop(job);
        return NULL;
    }
    const int64_t total = job->work[n_rows];
    asp_parallel(sg_multiply, job, total, LEAST_WORK, RANGE_WORK, job->n_threads, NS_PER_MULTIPLICATION * (double)total);
    if (atomic_load(&job->failed)) {
        asp_spgemm_drop(job);
        return NULL;
    }
    for (int64_t i = n_rows; i > 0; --i) job->row_nnz[i] = job->row_nnz[i - 1];
    job->row_nnz[0] = 0;
    sg_prefix_sums(job->row_nnz, n_rows);
    *nnz = job->row_nnz[n_rows];
    return job;
}

/* -- copying out --------------------------------------------------------------------------------------------------- */

static void sg_store_indices(const sg_job *job, void *out, int64_t at, const void *from, int64_t n)
{
    if (job->out_itype == job->itype) {
        memcpy((char *)out + (size_t)at * job->index_bytes, from, (size_t)n * job->index_bytes);
        return;
    }
    for (int64_t p = 0; p < n; ++p) ((int64_t *)out)[at + p] = ((const int32_t *)from)[p]; /* only ever widened */
}

static void sg_copy(void *context, int64_t begin, int64_t end)
{
    sg_job *job = context;
    for (int64_t s = begin; s < end; ++s) {
        sg_segment *segment = &job->segments[s];
        const int64_t at = job->row_nnz[segment->row];
        sg_store_indices(job, job->Cj, at, segment->j, segment->n);
        memcpy((char *)job->Cx + (size_t)at * job->value_bytes, segment->x, (size_t)segment->n * job->value_bytes);
        free(segment->j), free(segment->x);
        segment->j = segment->x = NULL;
    }
}

int asp_spgemm_finish(void *handle, int out_itype, void *Cp, void *Cj, void *Cx, int n_threads)
{
    sg_job *job = handle;
    if (!job || out_itype < job->itype) return ASP_BAD_CODE;
    job->out_itype = out_itype, job->Cp = Cp, job->Cj = Cj, job->Cx = Cx;
    for (int64_t i = 0; i <= job->n_rows; ++i) {
        if (out_itype == ASP_I32) ((int32_t *)Cp)[i] = (int32_t)job->row_nnz[i];
        else ((int64_t *)Cp)[i] = job->row_nnz[i];
    }
    asp_parallel(sg_copy, job, atomic_load(&job->n_segments), 1, 4, n_threads > 0 ? n_threads : job->n_threads,
                 (double)job->row_nnz[job->n_rows]);
    asp_spgemm_drop(job);
    return ASP_OK;
}
