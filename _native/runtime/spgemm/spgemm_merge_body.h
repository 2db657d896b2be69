/* Rows of the sparse product merged by a heap, for one value and index type. Included by spgemm_body.h, whose macros it
 * uses. */

/* Return the order of the columns of row k of B. */
ASP_INLINE int SG_FN(order)(const sg_job *job, int64_t k)
{
    const uint8_t known = atomic_load_explicit(job->b_order + k, memory_order_relaxed);
    if (known != SG_UNKNOWN) return known;
    const SG_I *Bp = job->Bp, *Bj = job->Bj;
    uint8_t order = SG_ASCENDING;
    for (int64_t q = Bp[k] + 1; q < Bp[k + 1]; ++q) {
        if (Bj[q] < Bj[q - 1]) order = SG_DESCENDING;
        else if (Bj[q] == Bj[q - 1] && order == SG_ASCENDING) order = SG_REPEATED;
    }
    atomic_store_explicit(job->b_order + k, order, memory_order_relaxed);
    return order;
}

/* Return whether all rows of B that row i of A reads are sorted. */
static int SG_FN(are_sorted)(const sg_job *job, int64_t i)
{
    const SG_I *Ap = job->Ap, *Aj = job->Aj;
    for (int64_t p = Ap[i]; p < Ap[i + 1]; ++p)
        if (SG_FN(order)(job, Aj[p]) == SG_DESCENDING) return 0;
    return 1;
}

/* Place of a row of B in the heap of a merge: its current column, and its number among the entries of the row of A. */
typedef struct {
    SG_I column, list;
} SG_FN(head);

/* Arrays of a merged row, all in space->merged. */
typedef struct {
    SG_FN(head) *heap;
    int64_t *next, *first; /* per list: position of the next entry of B; number of columns that it touches first */
    SG_I *columns, *owner; /* per column, ascending: the column, and the list that touches it first */
    SG_T *sums;
} SG_FN(merged);

ASP_INLINE int SG_FN(precedes)(SG_FN(head) a, SG_FN(head) b)
{
    return a.column < b.column || (a.column == b.column && a.list < b.list);
}

/* Move the heap's root down to its place among n heads. */
ASP_INLINE void SG_FN(sift)(SG_FN(head) *heap, int64_t n, int64_t at)
{
    const SG_FN(head) moved = heap[at];
    for (int64_t child; (child = 2 * at + 1) < n; at = child) {
        child += child + 1 < n && SG_FN(precedes)(heap[child + 1], heap[child]);
        if (!SG_FN(precedes)(heap[child], moved)) break;
        heap[at] = heap[child];
    }
    heap[at] = moved;
}

/* Variant of `single` that merges sorted rows of B by a heap. Equal columns leave the heap in the order of the entries
 * of A, so that sums are added in the same order. Returns the number of columns, in space->touched by their positions
 * in m, or -1 without memory. */
static int64_t SG_FN(merge)(const sg_job *job, sg_space *space, int64_t i, int64_t work, SG_FN(merged) *m)
{
    const SG_I *Ap = job->Ap, *Aj = (const SG_I *)job->Aj + Ap[i], *Bp = job->Bp, *Bj = job->Bj;
    const SG_T *Ax = (const SG_T *)job->Ax + Ap[i], *Bx = job->Bx, zero = SG_ZERO;
    const int64_t n_lists = Ap[i + 1] - Ap[i], most = asp_min(work, job->n_cols);
    const size_t per_list = sizeof *m->heap + 2 * sizeof(int64_t), per_column = sizeof(SG_T) + 2 * sizeof(SG_I);
    if (!sg_reserve_merged(space, (size_t)(n_lists + 1) * per_list + (size_t)(most + 1) * per_column + 64)) return -1;
    m->sums = (SG_T *)space->merged;
    m->next = (int64_t *)(m->sums + (most + 1) + (most & 1)); /* keeps positions aligned */
    m->first = m->next + n_lists;
    m->heap = (SG_FN(head) *)(m->first + n_lists + 1);
    m->columns = (SG_I *)(m->heap + n_lists);
    m->owner = m->columns + most;
    SG_I *touched = space->touched;
    int64_t n_heap = 0, n = 0;
    for (int64_t list = 0; list < n_lists; ++list) {
        m->next[list] = Bp[Aj[list]], m->first[list] = 0;
        if (m->next[list] < Bp[Aj[list] + 1]) m->heap[n_heap++] = (SG_FN(head)){Bj[m->next[list]], (SG_I)list};
    }
    for (int64_t at = n_heap / 2; at-- > 0;) SG_FN(sift)(m->heap, n_heap, at);
    while (n_heap) {
        const SG_FN(head) least = m->heap[0];
        const int64_t q = m->next[least.list]++;
        if (n && m->columns[n - 1] == least.column) {
            m->sums[n - 1] = SG_MULADD(m->sums[n - 1], Ax[least.list], Bx[q]);
        } else {
            m->columns[n] = least.column, m->owner[n] = least.list;
            m->sums[n] = SG_MULADD(zero, Ax[least.list], Bx[q]);
            ++m->first[least.list], ++n;
        }
        if (q + 1 < Bp[Aj[least.list] + 1]) m->heap[0].column = Bj[q + 1];
        else m->heap[0] = m->heap[--n_heap];
        SG_FN(sift)(m->heap, n_heap, 0);
    }
    /* SciPy's order: by the list that touches a column first, then by column. */
    int64_t before = 0;
    for (int64_t list = 0; list < n_lists; ++list) {
        const int64_t own = m->first[list];
        m->first[list] = before;
        before += own;
    }
    for (int64_t s = 0; s < n; ++s) touched[m->first[m->owner[s]]++] = (SG_I)s;
    return n;
}
