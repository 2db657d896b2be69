/* Rows of incomplete factorizations for one type of values and of indices (not guarded). */

/* Row i of A = (I + L) U: for each entry l left of the diagonal, l / u_kk times row k of U is subtracted on the pattern of
 * row i, whose indices ascend like those of row k. */
static void N(lu_row)(factorizing *it, int64_t i)
{
    const asp_triangle *triangle = it->triangle;
    const INDEX *start = (const INDEX *)triangle->start, *diagonal = (const INDEX *)triangle->stop, *end = it->end;
    const INDEX *indices = (const INDEX *)triangle->indices;
    T *data = (T *)triangle->data, *inverse = (T *)triangle->inverse;
    const int64_t last = end[i];
    for (int64_t q = start[i]; q < diagonal[i]; q++) {
        const int64_t k = indices[q], k_last = end[k];
        const T factor = data[q] * inverse[k];
        data[q] = factor;
        int64_t at = q + 1;
        for (int64_t u = diagonal[k] + 1; u < k_last && at < last; u++) {
            const INDEX column = indices[u];
            while (at < last && indices[at] < column) at++;
            if (at < last && indices[at] == column) data[at] -= factor * data[u];
        }
    }
    const T pivot = data[diagonal[i]];
    if (pivot == 0 || pivot != pivot) note_failure(it, i);
    inverse[i] = 1 / pivot;
}

/* Row i of A = L L^H: l_ik = (a_ik - row i of L times row k of L^H) / l_kk. */
static void N(cholesky_row)(factorizing *it, int64_t i)
{
    const asp_triangle *triangle = it->triangle;
    const INDEX *start = (const INDEX *)triangle->start, *stop = (const INDEX *)triangle->stop;
    const INDEX *indices = (const INDEX *)triangle->indices;
    T *data = (T *)triangle->data, *inverse = (T *)triangle->inverse;
    REAL pivot = ((const REAL *)it->diagonal)[i];
    for (int64_t q = start[i]; q < stop[i]; q++) {
        const int64_t k = indices[q], k_last = stop[k];
        T sum = data[q];
        int64_t at = start[i];
        for (int64_t u = start[k]; u < k_last && at < q; u++) {
            while (at < q && indices[at] < indices[u]) at++;
            if (at < q && indices[at] == indices[u]) sum -= data[at] * CONJUGATE(data[u]);
        }
        sum *= inverse[k];
        data[q] = sum;
        pivot -= REAL_PART(sum * CONJUGATE(sum));
    }
    const int is_positive = pivot > 0;
    if (!is_positive) note_failure(it, i);
    inverse[i] = 1 / ROOT(is_positive ? pivot : 1);
}

#define ROWS(kind)                                                                                   \
    static void N(kind)(void *context, int64_t first, int64_t last)                                  \
    {                                                                                                \
        const factorizing *it = context;                                                             \
        const INDEX *order = (const INDEX *)it->triangle->order;                                     \
        for (int64_t at = first; at < last; at++) N(kind##_row)(context, order ? order[at] : at);    \
    }
ROWS(lu)
ROWS(cholesky)
#undef ROWS
