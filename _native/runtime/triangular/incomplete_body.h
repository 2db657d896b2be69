/* Rows of incomplete factorizations for one type of values and of indices (not guarded).
 *
 * `row` is an array of n values in which a row is spread out, so that entries of other rows find their counterparts
 * without a search. */

/* Row i of A = (I + L) U: for each entry l left of the diagonal, l / u_kk times row k of U is subtracted. Positions of `row`
 * outside the pattern of row i are changed, too, and never read. */
static void N(lu_row)(factorizing *it, T *row, int64_t i)
{
    const asp_triangle *triangle = it->triangle;
    const INDEX *start = (const INDEX *)triangle->start, *diagonal = (const INDEX *)triangle->stop, *end = it->end;
    const INDEX *indices = (const INDEX *)triangle->indices;
    T *data = (T *)triangle->data, *inverse = (T *)triangle->inverse;
    const int64_t last = end[i];
    for (int64_t q = start[i]; q < last; q++) row[indices[q]] = data[q];
    for (int64_t q = start[i]; q < diagonal[i]; q++) {
        const int64_t k = indices[q], k_last = end[k];
        const T factor = row[k] * inverse[k];
        row[k] = factor;
        for (int64_t u = diagonal[k] + 1; u < k_last; u++) row[indices[u]] -= factor * data[u];
    }
    for (int64_t q = start[i]; q < last; q++) data[q] = row[indices[q]];
    const T pivot = data[diagonal[i]];
    if (pivot == 0 || pivot != pivot) note_failure(it, i);
    inverse[i] = 1 / pivot;
}

/* Row i of A = L L^H: l_ik = (a_ik - row i of L times row k of L^H) / l_kk. `row` is zero before and afterwards. */
static void N(cholesky_row)(factorizing *it, T *row, int64_t i)
{
    const asp_triangle *triangle = it->triangle;
    const INDEX *start = (const INDEX *)triangle->start, *stop = (const INDEX *)triangle->stop;
    const INDEX *indices = (const INDEX *)triangle->indices;
    T *data = (T *)triangle->data, *inverse = (T *)triangle->inverse;
    REAL pivot = ((const REAL *)it->diagonal)[i];
    for (int64_t q = start[i]; q < stop[i]; q++) {
        const int64_t k = indices[q], k_last = stop[k];
        T sum = data[q];
        for (int64_t u = start[k]; u < k_last; u++) sum -= row[indices[u]] * CONJUGATE(data[u]);
        sum *= inverse[k];
        row[k] = data[q] = sum;
        pivot -= REAL_PART(sum * CONJUGATE(sum));
    }
    for (int64_t q = start[i]; q < stop[i]; q++) row[indices[q]] = 0;
    const int is_positive = pivot > 0;
    if (!is_positive) note_failure(it, i);
    inverse[i] = 1 / ROOT(is_positive ? pivot : 1);
}

#define ROWS(kind)                                                                                        \
    static void N(kind)(void *context, int64_t first, int64_t last)                                       \
    {                                                                                                     \
        factorizing *it = context;                                                                        \
        const INDEX *order = (const INDEX *)it->triangle->order;                                          \
        const int at_row = take_row(it, sizeof(T));                                                       \
        if (at_row < 0) return;                                                                           \
        for (int64_t at = first; at < last; at++) N(kind##_row)(it, it->rows[at_row], order ? order[at] : at); \
        atomic_store_explicit(&it->is_taken[at_row], 0, memory_order_release);                            \
    }
ROWS(lu)
ROWS(cholesky)
#undef ROWS
