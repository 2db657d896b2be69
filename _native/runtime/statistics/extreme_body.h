/* Row kernels of max and min aggregation; see extreme.c. */

/* Compute T vectors of results of a row from column j on. A nan wins over any number, and the first of equal products
 * wins. */
ASP_INLINE void NAME(extreme_tile)(const g_extreme *s, int64_t row, int64_t j, int T)
{
    const I *indices = s->indices;
    const R *data = s->data;
    const int64_t p = (int64_t)((const I *)s->indptr)[row], end = (int64_t)((const I *)s->indptr)[row + 1];
    VEC best[4];
    VINT at[4];
    ASP_UNROLL
    for (int t = 0; t < T; ++t) {
        best[t] = SPLAT(s->least ? (R)INFINITY : -(R)INFINITY);
        at[t] = (VINT){0};
    }
    for (int64_t q = p; q < end; ++q) {
        const R *b = (const R *)s->B + (int64_t)indices[q] * s->ldb + j;
        const VINT here = (VINT){0} + (RINT)(q - p);
        if (q + G_AHEAD < s->nnz)
            __builtin_prefetch((const R *)s->B + (int64_t)indices[q + G_AHEAD] * s->ldb + j);
        ASP_UNROLL
        for (int t = 0; t < T; ++t) {
            VEC v = data ? data[q] * LOAD(b + t * W) : LOAD(b + t * W);
            VINT wins = (s->least ? (VINT)(v < best[t]) : (VINT)(v > best[t])) | (VINT)(v != v);
            best[t] = SELECT(wins, v, best[t]);
            if (s->arg) at[t] = (here & wins) | (at[t] & ~wins);
        }
    }
    R *C = (R *)s->C + row * s->n_vecs + j;
    ASP_UNROLL
    for (int t = 0; t < T; ++t) STORE(C + t * W, best[t]);
    if (s->arg) {
        I *arg = (I *)s->arg + row * s->n_vecs + j;
        for (int t = 0; t < T; ++t)
            for (int l = 0; l < W; ++l) arg[t * W + l] = (I)(p + at[t][l]);
    }
}

/* Compute the n < W results of a row, and the entries that attain them, without branches on values. */
ASP_INLINE void NAME(extreme_narrow)(const g_extreme *s, int64_t row, int64_t n, int least)
{
    const I *indices = s->indices;
    const R *data = s->data;
    const int64_t p = (int64_t)((const I *)s->indptr)[row], end = (int64_t)((const I *)s->indptr)[row + 1];
    R best[W];
    RINT at[W];
    for (int64_t j = 0; j < n; ++j) best[j] = least ? (R)INFINITY : -(R)INFINITY, at[j] = 0;
    for (int64_t q = p; q < end; ++q) {
        const R *b = (const R *)s->B + (int64_t)indices[q] * s->ldb, factor = data ? data[q] : (R)1;
        const RINT here = (RINT)(q - p);
        for (int64_t j = 0; j < n; ++j) {
            const R v = factor * b[j];
            const int wins = (least ? v < best[j] : v > best[j]) | (v != v);
            best[j] = wins ? v : best[j];
            at[j] = wins ? here : at[j];
        }
    }
    for (int64_t j = 0; j < n; ++j) ((R *)s->C)[row * n + j] = best[j];
    for (int64_t j = 0; s->arg && j < n; ++j) ((I *)s->arg)[row * n + j] = (I)(p + at[j]);
}

/* Aggregate the rows [begin, end). */
static void NAME(extreme)(const void *args, int64_t begin, int64_t end)
{
    const g_extreme *s = args;
    const I *indptr = s->indptr;
    const int64_t n = s->n_vecs;
    for (int64_t row = begin; row < end; ++row) {
        const int64_t p = (int64_t)indptr[row], q_end = (int64_t)indptr[row + 1];
        R *C = (R *)s->C + row * n;
        I *arg = s->arg ? (I *)s->arg + row * n : NULL;
        if (p == q_end) { /* empty row: the result is 0, and arg is nnz */
            for (int64_t j = 0; j < n; ++j) C[j] = 0;
            for (int64_t j = 0; arg && j < n; ++j) arg[j] = (I)s->nnz;
            continue;
        }
        if (n < W) { /* loops over a known number of columns use no memory between entries */
            if (n == 1)
                NAME(extreme_narrow)(s, row, 1, s->least);
            else if (n == 2)
                NAME(extreme_narrow)(s, row, 2, s->least);
            else if (s->least)
                NAME(extreme_narrow)(s, row, n, 1);
            else
                NAME(extreme_narrow)(s, row, n, 0);
            continue;
        }
        int64_t j = 0;
        for (; j + 4 * W <= n; j += 4 * W) NAME(extreme_tile)(s, row, j, 4);
        for (; j + W <= n; j += W) NAME(extreme_tile)(s, row, j, 1);
        if (j < n) NAME(extreme_tile)(s, row, n - W, 1);
    }
}

/* Compute ddata[arg] += G * B for the rows [begin, end); the entries of a row belong to one range. */
static void NAME(extreme_ddata)(const void *args, int64_t begin, int64_t end)
{
    const g_extreme *s = args;
    const I *indptr = s->indptr, *indices = s->indices, *arg = s->arg;
    R *ddata = s->ddata;
    for (int64_t row = begin; row < end; ++row) {
        for (int64_t q = (int64_t)indptr[row]; q < (int64_t)indptr[row + 1]; ++q) ddata[q] = 0;
        if (indptr[row] == indptr[row + 1]) continue;
        const R *G = (const R *)s->G + row * s->n_vecs, *B = s->B;
        for (int64_t j = 0; j < s->n_vecs; ++j) {
            const int64_t q = (int64_t)arg[row * s->n_vecs + j];
            ddata[q] += G[j] * B[(int64_t)indices[q] * s->ldb + j];
        }
    }
}

/* Compute dB[column of arg, j] += data[arg] * G for the dense columns [begin, end), which one thread writes. */
static void NAME(extreme_dB)(const void *args, int64_t begin, int64_t end)
{
    const g_extreme *s = args;
    const I *indptr = s->indptr, *indices = s->indices, *arg = s->arg;
    const R *data = s->data, *G = s->G;
    R *dB = s->dB;
    for (int64_t row = 0; row < s->n_rows; ++row) {
        if (indptr[row] == indptr[row + 1]) continue;
        for (int64_t j = begin; j < end; ++j) {
            const int64_t q = (int64_t)arg[row * s->n_vecs + j];
            dB[(int64_t)indices[q] * s->lddb + j] += (data ? data[q] : (R)1) * G[row * s->n_vecs + j];
        }
    }
}
