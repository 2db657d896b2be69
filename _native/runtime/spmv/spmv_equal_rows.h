/* Groups of rows whose lengths hardly vary, as in stencils: the row ends are predicted, and products do not pass through
 * memory. Each sum has the order of the row's nonzeros. */

enum { NAME(DEVIATING) = 2 }; /* rows of a group that may have another length than its first row */

/* Compute four rows of n nonzeros each. */
ASP_INLINE void NAME(four_rows)(const int64_t n, const I *indices, const R *data, const R *x, R *y, int add)
{
    R a = 0, b = 0, c = 0, d = 0;
    for (int64_t k = 0; k < n; k++) {
        a = FUSED(data[k], x[indices[k]], a);
        b = FUSED(data[n + k], x[indices[n + k]], b);
        c = FUSED(data[2 * n + k], x[indices[2 * n + k]], c);
        d = FUSED(data[3 * n + k], x[indices[3 * n + k]], d);
    }
    const R sums[4] = {a, b, c, d};
    ASP_UNROLL for (int r = 0; r < 4; r++) y[r] = add ? y[r] + sums[r] : sums[r];
}

/* Compute four rows of any length. */
ASP_INLINE void NAME(four_any_rows)(const I *indptr, const I *indices, const R *data, const R *x, R *y, int add)
{
    for (int r = 0; r < 4; r++) {
        R sum = 0;
        for (int64_t k = indptr[r]; k < indptr[r + 1]; k++) sum = FUSED(data[k], x[indices[k]], sum);
        y[r] = add ? y[r] + sum : sum;
    }
}

/* Prefetch what lies ahead of the nonzeros [k, stop), once per sixteen of them. */
ASP_INLINE void NAME(fetch_group)(int64_t k, int64_t stop, const I *indices, const R *data, int fetch)
{
    for (; fetch && k < stop; k += 16) {
        FETCH_AHEAD(indices + k, 16);
        FETCH_AHEAD(data + k, 16);
    }
}

/* Compute the group of rows of n nonzeros each that begins at indptr, and groups of such rows that follow it, up to
 * n_rows rows; return the number of rows. */
ASP_INLINE int64_t NAME(groups_of)(const int64_t n, const I *indptr, const I *indices, const R *data, const R *x, R *y,
                                   int add, int fetch, int64_t n_rows)
{
    int64_t done = 0;
    indices += indptr[0];
    data += indptr[0];
    do {
        NAME(fetch_group)(0, ROW_GROUP * n, indices, data, fetch);
        for (int row = 0; row < ROW_GROUP; row += 4)
            NAME(four_rows)(n, indices + row * n, data + row * n, x, y + done + row, add);
        indices += ROW_GROUP * n;
        data += ROW_GROUP * n;
        done += ROW_GROUP;
    } while (done + ROW_GROUP <= n_rows && ARE_EQUAL(indptr + done, n));
    return done;
}

/* Compute a group of equal rows, and groups of rows of the same length that follow it, up to n_rows rows; return the
 * number of rows, 0 if the rows of the group are not equal. */
static ASP_NOINLINE int64_t NAME(equal_rows)(const I *indptr, const I *indices, const R *data, const R *x, R *y, int add,
                                             int fetch, int64_t n_rows)
{
    const int64_t n = indptr[1] - indptr[0];
    if (n > EQUAL_MAX || !ARE_EQUAL(indptr, n)) return 0;
#define EQUAL(n) \
    case n: return NAME(groups_of)(n, indptr, indices, data, x, y, add, fetch, n_rows);
    switch (n) {
        EQUAL(1) EQUAL(2) EQUAL(3) EQUAL(4) EQUAL(5) EQUAL(6) EQUAL(7)
    default: return NAME(groups_of)(n, indptr, indices, data, x, y, add, fetch, n_rows);
    }
#undef EQUAL
}

/* Compute a group of rows of which at most DEVIATING deviate in length. Some kernels do not use it. */
static __attribute__((noinline, unused)) void NAME(alike_rows)(const I *indptr, const I *indices, const R *data,
                                                               const R *x, R *y, int add)
{
    const int64_t n = indptr[1] - indptr[0];
    for (int row = 0; row < ROW_GROUP; row += 4) {
        const I *at = indptr + row;
        const int64_t first = at[0];
        if (at[1] - first == n && at[2] - first == 2 * n && at[3] - first == 3 * n && at[4] - first == 4 * n)
            NAME(four_rows)(n, indices + first, data + first, x, y + row, add);
        else NAME(four_any_rows)(at, indices, data, x, y + row, add);
    }
}
