/* Choice of the accumulator for each row of a sparse product, by estimated costs from counts.
 *
 * The counts are the entries of the row of A, its multiplications, and the bytes of the accumulators. The constants were
 * fitted to rows of 13 matrices on one thread of a Xeon with 64-byte vectors (docs/design/compiled-kernels.md); only their
 * ratios matter. The number of entries of the result is not known before, so that no cost depends on it.
 */
#include "spgemm.h"

#include "matmul.h"
#include "spgemm_api.h"

#include <math.h>

/* Nanoseconds per multiplication: accumulators of all columns in the cache of a core, and per doubling beyond it where
 * all of them miss the cache. */
static const double DENSE_NS = 4, DENSE_MISS_NS = 4;
/* Accumulators in a hash table of up to HASH_BYTES, and per doubling beyond. */
static const double HASH_NS = 7, HASH_MISS_NS = 2;
enum { HASH_BYTES = 1 << 14 };
/* A multiple of one row of B, which is written in one pass, and in addition for the row. */
static const double COPY_NS = 2, COPY_ROW_NS = 2;
/* Setting accumulators of all columns to zero, per byte, on each thread. */
static const double ZERO_NS = 0.1;
/* Part of a core's own cache that accumulators of all columns can use beside the operands. */
static const double CACHE_SHARE = 0.5;

/* Samples of entries of A, and blocks of accumulators of 2^BLOCK_BITS bytes in a simulated cache of CACHE_BLOCKS. */
enum { N_SAMPLES = 8, SAMPLE = 512, BLOCK_BITS = 12, CACHE_BLOCKS = 256 };

/* Return the share of rows of B whose accumulators are not in a cache that holds those of the rows before, by samples. */
static double far_share(const sg_job *job)
{
    int64_t n = 0, n_far = 0;
    for (int64_t sample = 0; sample < N_SAMPLES; ++sample) {
        int64_t held[CACHE_BLOCKS] = {0}; /* 1 + block */
        const int64_t begin = job->a_nnz / N_SAMPLES * sample, end = asp_min(job->a_nnz, begin + SAMPLE);
        for (int64_t p = begin; p < end; ++p) {
            const int64_t q = asp_index_at(job->itype, job->Bp, asp_index_at(job->itype, job->Aj, p));
            if (q >= job->b_nnz) continue;
            const int64_t column = asp_index_at(job->itype, job->Bj, q);
            const int64_t block = (column * (int64_t)job->kind->cell_bytes) >> BLOCK_BITS;
            n_far += held[block % CACHE_BLOCKS] != block + 1, ++n;
            held[block % CACHE_BLOCKS] = block + 1;
        }
    }
    return n ? (double)n_far / (double)n : 0;
}

void sg_estimate(sg_job *job)
{
    const double bytes = (double)job->n_cols * (double)job->kind->cell_bytes;
    const double work = asp_max(1, job->a_nnz) * (1 + (double)job->b_nnz / (double)asp_max(1, job->n_inner));
    job->dense_ns = DENSE_NS + ZERO_NS * bytes / work;
    const double cache = CACHE_SHARE * (double)asp_private_cache_bytes();
    if (bytes > cache) job->dense_ns += DENSE_MISS_NS * log2(bytes / cache) * far_share(job);
    job->is_cached = job->dense_ns <= HASH_NS;
}

/* Return the base-2 logarithm of n >= 1, rounded up. */
ASP_INLINE int levels(int64_t n)
{
    return n <= 1 ? 0 : 64 - __builtin_clzll((unsigned long long)(n - 1));
}

double sg_cost(const sg_job *job, int solver, int64_t work, int is_copy)
{
    if (solver == SG_DENSE) return job->dense_ns * (double)work;
    if (solver == SG_COPY && is_copy) return COPY_ROW_NS + COPY_NS * (double)work;
    const int64_t slots = (int64_t)1 << levels(2 * asp_min(work, job->n_cols));
    const int64_t bytes = slots * (int64_t)job->kind->slot_bytes;
    return (HASH_NS + (bytes > HASH_BYTES ? HASH_MISS_NS * levels(bytes / HASH_BYTES) : 0)) * (double)work;
}

int sg_choose(const sg_job *job, int64_t work)
{
    if (!work) return SG_HASH; /* an empty row needs no accumulators of all columns */
    return sg_cost(job, SG_HASH, work, 0) < sg_cost(job, SG_DENSE, work, 0) ? SG_HASH : SG_DENSE;
}

/* Return whether row i > 0 of A has at least three entries, and the columns of the row before. */
static int is_grouped(const sg_job *job, int64_t i)
{
    const int64_t begin = asp_index_at(job->itype, job->Ap, i), end = asp_index_at(job->itype, job->Ap, i + 1);
    const int64_t before = asp_index_at(job->itype, job->Ap, i - 1);
    if (end - begin < 3 || begin - before != end - begin) return 0;
    const char *columns = job->Aj;
    return !memcmp(columns + (size_t)before * job->index_bytes, columns + (size_t)begin * job->index_bytes,
                   (size_t)(end - begin) * job->index_bytes);
}

/* Return whether the columns of row k of B ascend. */
static int is_ascending(const sg_job *job, int64_t k)
{
    const int64_t end = asp_index_at(job->itype, job->Bp, k + 1);
    for (int64_t q = asp_index_at(job->itype, job->Bp, k) + 1; q < end; ++q)
        if (asp_index_at(job->itype, job->Bj, q) <= asp_index_at(job->itype, job->Bj, q - 1)) return 0;
    return 1;
}

int asp_spgemm_costs(int dtype, int itype, const int64_t *shape, const void *Ap, const void *Aj, const void *Bp,
                     const void *Bj, int64_t *counts, double *ns)
{
    if (dtype < 0 || dtype >= SG_N_DTYPES || itype < 0 || itype > 1) return ASP_BAD_CODE;
    sg_job job = {.itype = itype, .kind = &sg_kinds[dtype][itype], .index_bytes = itype == ASP_I32 ? 4 : 8,
                  .n_rows = shape[0], .n_inner = shape[1], .n_cols = shape[2], .Ap = Ap, .Aj = Aj, .Bp = Bp, .Bj = Bj};
    job.a_nnz = asp_index_at(itype, Ap, job.n_rows), job.b_nnz = asp_index_at(itype, Bp, job.n_inner);
    sg_estimate(&job);
    for (int s = 0; s < SG_N_SOLVERS; ++s) counts[2 * s] = counts[2 * s + 1] = 0, ns[s] = 0;
    for (int64_t i = 0; i < job.n_rows; ++i) {
        const int64_t begin = asp_index_at(itype, Ap, i), end = asp_index_at(itype, Ap, i + 1);
        int64_t work = 0;
        for (int64_t p = begin; p < end; ++p) {
            const int64_t k = asp_index_at(itype, Aj, p);
            work += asp_index_at(itype, Bp, k + 1) - asp_index_at(itype, Bp, k);
        }
        if (!work) continue;
        const int is_copy = end - begin == 1 && is_ascending(&job, asp_index_at(itype, Aj, begin));
        const int is_dense = !is_copy && i && is_grouped(&job, i);
        const int chosen = is_copy ? SG_COPY : is_dense ? SG_DENSE : sg_choose(&job, work);
        ++counts[0], counts[1] += work;
        ++counts[2 * chosen], counts[2 * chosen + 1] += work;
        ns[0] += sg_cost(&job, chosen, work, is_copy);
        for (int s = SG_DENSE; s < SG_N_SOLVERS; ++s) ns[s] += sg_cost(&job, s, work, is_copy);
    }
    return ASP_OK;
}
