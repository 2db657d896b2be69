/* One row range of the product for one value and index type. Defined by the includer: SG_NAME, SG_T, SG_I, SG_STAMP (an
 * unsigned type that holds row + 1), SG_ZERO, SG_MULADD(sum, a, b) = sum + a * b in SciPy's order of operations,
 * SG_NONZERO(sum). */

typedef struct {
    SG_T sum;
    SG_STAMP stamp; /* row + 1 that last wrote here: saves clearing between rows */
} ASP_GLUE(sg, cell, SG_NAME, t);

static int ASP_GLUE(sg, rows, SG_NAME, fn)(const sg_job *job, sg_segment *segment, void *accumulators)
{
    const SG_I *Ap = job->Ap, *Aj = job->Aj, *Bp = job->Bp, *Bj = job->Bj;
    const SG_T *Ax = job->Ax, *Bx = job->Bx;
    ASP_GLUE(sg, cell, SG_NAME, t) *restrict cells = accumulators;
    SG_I *Cj = segment->j;
    SG_T *Cx = segment->x;
    int64_t n = 0;
    int is_dense = 0;
    for (int64_t i = segment->row; i < segment->row_end; ++i) {
        const SG_STAMP stamp = (SG_STAMP)(i + 1);
        const int64_t a_end = Ap[i + 1], first = n;
        int64_t work = 0;
        for (int64_t p = Ap[i]; p < a_end; ++p) {
            if (p + 2 < a_end) __builtin_prefetch(Bj + Bp[Aj[p + 2]]), __builtin_prefetch(Bx + Bp[Aj[p + 2]]);
            const SG_T a = Ax[p];
            const int64_t b_begin = Bp[Aj[p]], b_end = Bp[Aj[p] + 1];
            work += b_end - b_begin;
            if (is_dense) {
                for (int64_t q = b_begin; q < b_end; ++q) {
                    ASP_GLUE(sg, cell, SG_NAME, t) *cell = cells + Bj[q];
                    if (__builtin_expect(cell->stamp == stamp, 1)) {
                        cell->sum = SG_MULADD(cell->sum, a, Bx[q]);
                    } else {
                        const SG_T zero = SG_ZERO;
                        cell->sum = SG_MULADD(zero, a, Bx[q]);
                        cell->stamp = stamp;
                        Cj[n++] = Bj[q];
                    }
                }
                continue;
            }
            for (int64_t q = b_begin; q < b_end; ++q) {
                ASP_GLUE(sg, cell, SG_NAME, t) *cell = cells + Bj[q];
                const int fresh = cell->stamp != stamp; /* no branch: it would be mispredicted every other time */
                Cj[n] = Bj[q];
                n += fresh;
                const SG_T sum = fresh ? SG_ZERO : cell->sum;
                cell->sum = SG_MULADD(sum, a, Bx[q]);
                cell->stamp = stamp;
            }
        }
        /* Rows are like their neighbours: where most products met an entry that was there, a branch is cheaper. */
        is_dense = 3 * (n - first) < work;
        for (int64_t low = first, high = n - 1; low < high; ++low, --high) { /* SciPy's order: last touched first */
            const SG_I swap = Cj[low];
            Cj[low] = Cj[high];
            Cj[high] = swap;
        }
        int64_t kept = first; /* sums that cancelled to zero are no entries: SciPy's rule (nan is one) */
        for (int64_t p = first; p < n; ++p) {
            const SG_T sum = cells[Cj[p]].sum;
            Cj[kept] = Cj[p];
            Cx[kept] = sum;
            kept += SG_NONZERO(sum);
        }
        n = kept;
        job->row_nnz[i] = n - first;
    }
    segment->n = n;
    return 0;
}

#undef SG_NAME
#undef SG_T
#undef SG_I
#undef SG_STAMP
#undef SG_ZERO
#undef SG_MULADD
#undef SG_NONZERO
