/* Row kernels of the sparse product for one value and index type. The includer defines SG_D and SG_ITAG (for names),
 * SG_T, SG_I, SG_STAMP (an unsigned type that holds row + 1), SG_ZERO (an initializer), SG_MULADD(sum, a, b) = sum + a
 * * b in SciPy's order of operations, and SG_NONZERO(sum). */

#define SG_CELL ASP_GLUE(sg, cell, SG_D, SG_ITAG)
#define SG_FN(F) ASP_GLUE(sg, F, SG_D, SG_ITAG)
#define SG_SLOT ASP_GLUE(sg, slot, SG_D, SG_ITAG)

/* Accumulator of one column. */
typedef struct {
    union {
        SG_T sum;
        SG_I slot; /* index of the group of sums, where several rows are computed together */
    };
    SG_STAMP stamp; /* 1 + the row that wrote the sum last: makes clearing between rows unnecessary */
} SG_CELL;

/* Prefetch the operands of the products that follow entry p of A, including those of later rows. */
ASP_INLINE void SG_FN(fetch)(const sg_job *job, int64_t p)
{
    const SG_I *Aj = job->Aj, *Bp = job->Bp;
    if (p + 16 < job->a_nnz) {
        __builtin_prefetch(Bp + Aj[p + 16]);
        const SG_I q = Bp[Aj[p + 8]];
        __builtin_prefetch((const SG_I *)job->Bj + q), __builtin_prefetch((const SG_T *)job->Bx + q);
    }
}

/* Compute row i of the product and return its number of columns. Its columns are in space->touched, its sums in
 * space->cells. *is_dense selects the inner loop and is updated for the next row. */
static int64_t SG_FN(single)(const sg_job *job, sg_space *space, int64_t i, int *is_dense)
{
    const SG_I *Ap = job->Ap, *Aj = job->Aj, *Bp = job->Bp, *Bj = job->Bj;
    const SG_T *Ax = job->Ax, *Bx = job->Bx;
    SG_CELL *restrict cells = space->cells;
    SG_I *restrict touched = space->touched;
    const SG_STAMP stamp = (SG_STAMP)(i + 1);
    const int64_t a_end = Ap[i + 1];
    int64_t n = 0, work = 0;
    for (int64_t p = Ap[i]; p < a_end; ++p) {
        if (job->far) SG_FN(fetch)(job, p);
        const SG_T a = Ax[p];
        const int64_t b_begin = Bp[Aj[p]], b_end = Bp[Aj[p] + 1];
        const SG_T zero = SG_ZERO;
        work += b_end - b_begin;
        if (*is_dense) {
            for (int64_t q = b_begin; q < b_end; ++q) {
                SG_CELL *cell = cells + Bj[q];
                if (__builtin_expect(cell->stamp == stamp, 1)) {
                    cell->sum = SG_MULADD(cell->sum, a, Bx[q]);
                } else {
                    cell->sum = SG_MULADD(zero, a, Bx[q]);
                    cell->stamp = stamp;
                    touched[n++] = Bj[q];
                }
            }
            continue;
        }
        for (int64_t q = b_begin; q < b_end; ++q) {
            SG_CELL *cell = cells + Bj[q];
            /* branch-free, because a branch would be mispredicted half of the time */
            const int fresh = cell->stamp != stamp;
            touched[n] = Bj[q];
            n += fresh;
            const SG_T sum = fresh ? zero : cell->sum;
            cell->sum = SG_MULADD(sum, a, Bx[q]);
            cell->stamp = stamp;
        }
    }
    /* Neighbouring rows are similar: where most products hit an existing entry, a branch is faster. */
    *is_dense = 3 * n < work;
    return n;
}

/* Return how many rows of A from i on, at most SG_LANES, have the same columns in the same order. */
ASP_INLINE int SG_FN(group)(const sg_job *job, int64_t i, int64_t row_end)
{
    const SG_I *Ap = job->Ap, *Aj = job->Aj;
    const int64_t length = Ap[i + 1] - Ap[i];
    int n = 1;
    if (length < 3) return 1;
    while (n < SG_LANES && i + n < row_end && Ap[i + n + 1] - Ap[i + n] == length && Aj[Ap[i]] == Aj[Ap[i + n]] &&
           !memcmp(Aj + Ap[i], Aj + Ap[i + n], (size_t)length * sizeof *Aj))
        ++n;
    return n;
}

/* Return whether row k of B has the columns of row k - 1, each once. Products of both rows can then be added column by
 * column. */
ASP_INLINE int SG_FN(same)(const sg_job *job, int64_t k)
{
    const uint8_t known = atomic_load_explicit(job->b_same + k, memory_order_relaxed);
    if (known != SG_UNKNOWN) return known == SG_SAME;
    const SG_I *Bp = job->Bp, *before = (const SG_I *)job->Bj + Bp[k - 1], *here = (const SG_I *)job->Bj + Bp[k];
    const int64_t length = Bp[k + 1] - Bp[k];
    int same = Bp[k] - Bp[k - 1] == length;
    for (int64_t q = 0; same && q < length; ++q) same = before[q] == here[q] && (q == 0 || here[q - 1] < here[q]);
    atomic_store_explicit(job->b_same + k, (uint8_t)(same ? SG_SAME : SG_OTHER), memory_order_relaxed);
    return same;
}

/* Add a[t][lane] * (row k + t of B), t < n_run, to the sums of all lanes; return the number of columns so far. */
ASP_INLINE int64_t SG_FN(add)(const sg_job *job, sg_space *space, int64_t k, int n_run, SG_T (*restrict a)[SG_LANES],
                              SG_STAMP stamp, int64_t n)
{
    const SG_I *Bp = job->Bp, *Bj = (const SG_I *)job->Bj + Bp[k];
    const SG_T *Bx = (const SG_T *)job->Bx + Bp[k], zero = SG_ZERO;
    const int64_t length = Bp[k + 1] - Bp[k];
    SG_CELL *restrict cells = space->cells;
    SG_I *restrict touched = space->touched;
    SG_T (*restrict sums)[SG_LANES] = space->sums;
    for (int64_t q = 0; q < length; ++q) {
        SG_CELL *cell = cells + Bj[q];
        if (__builtin_expect(cell->stamp != stamp, 0)) {
            cell->stamp = stamp;
            cell->slot = (SG_I)n;
            touched[n] = Bj[q];
            for (int lane = 0; lane < SG_LANES; ++lane) sums[n][lane] = zero;
            ++n;
        }
        SG_T sum[SG_LANES], *stored = sums[cell->slot];
        memcpy(sum, stored, sizeof sum);
        for (int t = 0; t < n_run; ++t) {
            const SG_T b = Bx[t * length + q];
            for (int lane = 0; lane < SG_LANES; ++lane) sum[lane] = SG_MULADD(sum[lane], a[t][lane], b);
        }
        memcpy(stored, sum, sizeof sum);
    }
    return n;
}

/* Variant of `single` for n_lanes rows from i on with identical columns; sums are in space->sums. Returns -1 without
 * memory. */
static int64_t SG_FN(together)(const sg_job *job, sg_space *space, int64_t i, int n_lanes)
{
    const SG_I *Ap = job->Ap, *Aj = (const SG_I *)job->Aj + Ap[i], *Bp = job->Bp;
    const SG_T *Ax = (const SG_T *)job->Ax + Ap[i], zero = SG_ZERO;
    const int64_t length = Ap[i + 1] - Ap[i];
    const SG_STAMP stamp = (SG_STAMP)(i + 1);
    int64_t n = 0, most = 0;
    for (int64_t p = 0; p < length; ++p) most += Bp[Aj[p] + 1] - Bp[Aj[p]];
    if (!sg_reserve_sums(job, space, asp_min(most, job->n_cols))) return -1;
    for (int64_t p = 0; p < length;) {
        const int64_t k = Aj[p];
        int n_run = 1;
        while (n_run < 3 && p + n_run < length && Aj[p + n_run] == k + n_run && SG_FN(same)(job, k + n_run)) ++n_run;
        SG_T a[3][SG_LANES];
        for (int t = 0; t < n_run; ++t)
            for (int lane = 0; lane < SG_LANES; ++lane) a[t][lane] = lane < n_lanes ? Ax[lane * length + p + t] : zero;
        switch (n_run) {
        case 1: n = SG_FN(add)(job, space, k, 1, a, stamp, n); break;
        case 2: n = SG_FN(add)(job, space, k, 2, a, stamp, n); break;
        default: n = SG_FN(add)(job, space, k, 3, a, stamp, n); break;
        }
        p += n_run;
    }
    return n;
}

/* Accumulator of one column in a hash table; column -1 where there is none. */
typedef struct {
    SG_T sum;
    SG_I column;
} SG_SLOT;

/* Return the number of multiplications of row i of the product. */
ASP_INLINE int64_t SG_FN(work)(const sg_job *job, int64_t i)
{
    const SG_I *Ap = job->Ap, *Aj = job->Aj, *Bp = job->Bp;
    int64_t work = 0;
    for (int64_t p = Ap[i]; p < Ap[i + 1]; ++p) work += Bp[Aj[p] + 1] - Bp[Aj[p]];
    return work;
}

/* Variant of `single` with a hash table of at least twice as many slots as the row can have columns. The slots of its
 * columns are in space->touched. Returns -1 without memory. */
static int64_t SG_FN(hashed)(const sg_job *job, sg_space *space, int64_t i, int64_t work)
{
    const SG_I *Ap = job->Ap, *Aj = job->Aj, *Bp = job->Bp, *Bj = job->Bj;
    const SG_T *Ax = job->Ax, *Bx = job->Bx, zero = SG_ZERO;
    int shift = 60; /* of 2^4 slots */
    while (((int64_t)1 << (64 - shift)) < 2 * asp_min(work, job->n_cols)) --shift;
    const int64_t n_slots = (int64_t)1 << (64 - shift);
    if (n_slots > space->n_slots) {
        free(space->table);
        space->table = malloc((size_t)n_slots * sizeof(SG_SLOT));
        space->n_slots = space->table ? n_slots : 0;
        if (!space->table) return -1;
        for (int64_t s = 0; s < n_slots; ++s) ((SG_SLOT *)space->table)[s].column = -1;
    }
    SG_SLOT *restrict slots = space->table;
    SG_I *restrict touched = space->touched;
    int64_t n = 0;
    for (int64_t p = Ap[i]; p < Ap[i + 1]; ++p) {
        if (job->far) SG_FN(fetch)(job, p);
        const SG_T a = Ax[p];
        const int64_t b_end = Bp[Aj[p] + 1];
        for (int64_t q = Bp[Aj[p]]; q < b_end; ++q) {
            const SG_I column = Bj[q];
            int64_t at = (int64_t)(((uint64_t)column * 0x9E3779B97F4A7C15u) >> shift);
            while (slots[at].column != column && slots[at].column != -1) at = (at + 1) & (n_slots - 1);
            if (slots[at].column == column) {
                slots[at].sum = SG_MULADD(slots[at].sum, a, Bx[q]);
            } else {
                slots[at].column = column;
                slots[at].sum = SG_MULADD(zero, a, Bx[q]);
                touched[n++] = (SG_I)at;
            }
        }
    }
    return n;
}

/* Write row I of the product. SciPy's order is the reverse order of first products. Sums that are exactly zero are not
 * stored; nan is. */
#define SG_EMIT(I, COLUMN, SUM)                                      \
    do {                                                             \
        if (n >= space->room && !sg_open(job, space, n)) return 0;   \
        SG_I *restrict Cj = (SG_I *)space->j;                        \
        SG_T *restrict Cx = (SG_T *)space->x;                        \
        int64_t kept = 0;                                            \
        for (int64_t s = n; s-- > 0;) {                              \
            const SG_T sum = (SUM);                                  \
            Cj[kept] = (COLUMN);                                     \
            Cx[kept] = sum;                                          \
            kept += SG_NONZERO(sum);                                 \
        }                                                            \
        row_nnz[(I)] = (SG_I)kept;                                   \
        space->chunk->n += kept;                                     \
        space->j += (size_t)kept * sizeof(SG_I);                     \
        space->x += (size_t)kept * sizeof(SG_T);                     \
        space->room -= kept;                                         \
    } while (0)

/* Write row i, whose only entry of A makes it a multiple of row k of B, in one pass. Returns 1, 0 without memory, or -1
 * without a change if the columns of row k do not ascend. */
ASP_INLINE int SG_FN(scaled)(sg_job *job, sg_space *space, int64_t i, int64_t k)
{
    const SG_I *Ap = job->Ap, *Bp = job->Bp, *from = (const SG_I *)job->Bj + Bp[k];
    const SG_T *values = (const SG_T *)job->Bx + Bp[k], a = ((const SG_T *)job->Ax)[Ap[i]], zero = SG_ZERO;
    const int64_t n = Bp[k + 1] - Bp[k];
    if (atomic_load_explicit(job->b_order + k, memory_order_relaxed) == SG_OTHER) return -1;
    if (job->far) SG_FN(fetch)(job, Ap[i]);
    if (n >= space->room && !sg_open(job, space, n)) return 0;
    SG_I *restrict Cj = (SG_I *)space->j;
    SG_T *restrict Cx = (SG_T *)space->x;
    int64_t kept = 0, above = job->n_cols;
    int ascends = 1;
    for (int64_t s = n; s-- > 0;) {
        const SG_T sum = SG_MULADD(zero, a, values[s]);
        ascends &= from[s] < above;
        above = Cj[kept] = from[s];
        Cx[kept] = sum;
        kept += SG_NONZERO(sum);
    }
    if (!ascends) {
        atomic_store_explicit(job->b_order + k, SG_OTHER, memory_order_relaxed); /* for later rows that read row k */
        return -1;
    }
    ((SG_I *)job->row_nnz)[i] = (SG_I)kept;
    space->chunk->n += kept;
    space->j += (size_t)kept * sizeof(SG_I);
    space->x += (size_t)kept * sizeof(SG_T);
    space->room -= kept;
    return 1;
}

/* Compute the rows [row, row_end); return 0 without memory. */
static int SG_FN(rows)(sg_job *job, sg_space *space, int64_t row, int64_t row_end)
{
    const SG_I *Ap = job->Ap, *Aj = job->Aj, *touched = space->touched;
    SG_T (*sums)[SG_LANES];
    SG_I *row_nnz = job->row_nnz;
    int is_dense = space->is_dense;
    for (int64_t i = row; i < row_end;) {
        if (Ap[i + 1] - Ap[i] == 1 && (job->solver == SG_BY_CLASS || job->solver == SG_COPY)) {
            const int status = SG_FN(scaled)(job, space, i, Aj[Ap[i]]);
            if (!status) return 0;
            if (status > 0) {
                ++i;
                continue;
            }
        }
        const int n_lanes = job->solver <= SG_DENSE ? SG_FN(group)(job, i, row_end) : 1;
        int solver = job->solver == SG_COPY ? SG_HASH : job->solver;
        if (n_lanes > 1 || (solver == SG_BY_CLASS && job->is_cached)) solver = SG_DENSE;
        if (solver != SG_DENSE) {
            const int64_t work = SG_FN(work)(job, i);
            if (solver == SG_BY_CLASS) solver = sg_choose(job, work);
            if (solver == SG_HASH) {
                const int64_t n = SG_FN(hashed)(job, space, i, work);
                if (n < 0) return 0;
                SG_SLOT *slots = space->table;
                SG_EMIT(i, slots[touched[s]].column, slots[touched[s]].sum);
                for (int64_t s = 0; s < n; ++s) slots[touched[s]].column = -1;
            }
        }
        if (solver == SG_DENSE && !sg_reserve_cells(job, space)) return 0;
        const SG_CELL *cells = space->cells;
        if (solver == SG_DENSE && n_lanes == 1) {
            const int64_t n = SG_FN(single)(job, space, i, &is_dense);
            SG_EMIT(i, touched[s], cells[touched[s]].sum);
        } else if (n_lanes > 1) {
            const int64_t n = SG_FN(together)(job, space, i, n_lanes);
            if (n < 0) return 0;
            sums = space->sums;
            for (int lane = 0; lane < n_lanes; ++lane) SG_EMIT(i + lane, touched[s], sums[s][lane]);
        }
        i += n_lanes;
    }
    space->is_dense = is_dense;
    return 1;
}

#undef SG_EMIT
#undef SG_FN
#undef SG_CELL
#undef SG_SLOT
