/* y[i] = A[i] x for the rows [begin, end): groups of short rows by sixteen_rows, other rows by one_row. */
ASP_TILE void NAME(spmv_groups)(const asp_args *args, int64_t begin, int64_t end, int fetch)
{
    const I *indptr = args->indptr, *indices = args->indices;
    const R *data = args->data, *x = args->B;
    R *y = args->C;
    const int add = args->accumulate;
    for (int64_t i = begin; i < end;) {
        int64_t stop = asp_min(i / ROW_GROUP * ROW_GROUP + ROW_GROUP, end);
        if (stop - i == ROW_GROUP && indptr[stop] - indptr[i] <= GROUP_NONZEROS) {
            NAME(sixteen_rows)(indptr + i, indices, data, x, y + i, add, fetch);
            i = stop;
            continue;
        }
        for (; i < stop; i++) {
            if (indptr[i + 1] - indptr[i] > args->long_row_length) {
                asp_note_long_row(args, i);
                continue;
            }
            const R sum = NAME(one_row)(indptr[i], indptr[i + 1], indices, data, x, fetch);
            y[i] = add ? y[i] + sum : sum;
        }
    }
}

/* Separate functions, so that the loop without prefetching does not lose registers to the other one. */
static ASP_NOINLINE void NAME(spmv_fetching)(const asp_args *args, int64_t begin, int64_t end)
{
    NAME(spmv_groups)(args, begin, end, 1);
}

static ASP_NOINLINE void NAME(spmv_resident)(const asp_args *args, int64_t begin, int64_t end)
{
    NAME(spmv_groups)(args, begin, end, 0);
}

/* y[i] = A[i] x for the rows [begin, end) of a matrix of which most groups have equal rows. */
static ASP_NOINLINE void NAME(spmv_equal)(const asp_args *args, int64_t begin, int64_t end, int fetch)
{
    const I *indptr = args->indptr;
    for (int64_t i = begin; i < end;) {
        const int64_t stop = asp_min(i / ROW_GROUP * ROW_GROUP + ROW_GROUP, end);
        int64_t n_rows = stop - i;
        if (n_rows == ROW_GROUP)
            n_rows = NAME(equal_rows)(indptr + i, args->indices, args->data, args->B, (R *)args->C + i, args->accumulate,
                                      fetch, end - i);
        if (n_rows < ROW_GROUP) {
            (fetch ? NAME(spmv_fetching) : NAME(spmv_resident))(args, i, stop);
            n_rows = stop - i;
        }
        i += n_rows;
    }
}

/* Return whether at least three quarters of the groups have equal rows, by a sample of all groups: the answer, and with
 * it the bits of sums, must not depend on the range of a thread. */
ASP_INLINE int NAME(are_equal_groups)(const I *indptr, int64_t n_rows)
{
    int n_equal = 0;
    for (int64_t s = 0; s < SAMPLED_GROUPS && n_rows >= SAMPLED_FROM_ROWS; s++) {
        const I *group = indptr + s * SAMPLED_STEP % (n_rows / ROW_GROUP) * ROW_GROUP;
        n_equal += ARE_EQUAL(group, group[1] - group[0]);
    }
    return 4 * n_equal >= 3 * SAMPLED_GROUPS;
}

/* Return whether most of the rows [begin, end) have the next row's length, by a sample of them. */
ASP_INLINE int NAME(are_mostly_equal)(const I *indptr, int64_t begin, int64_t end)
{
    int n_equal = 0;
    for (int64_t s = 0; s < SAMPLED_ROWS && end - begin > 4; s++) {
        const I *starts = indptr + begin + (end - begin - 2) * s / SAMPLED_ROWS;
        n_equal += starts[2] - starts[1] == starts[1] - starts[0];
    }
    return 4 * n_equal >= 3 * SAMPLED_ROWS;
}

static void NAME(spmv)(const asp_args *args, int64_t begin, int64_t end)
{
    const int is_short = args->n_rows < REMEMBERED_ROWS && args->nnz < FEW_NONZEROS * args->n_rows;
    if (args->n_cols > INT32_MAX) NAME(spmv_plain)(args, begin, end);
    else if (is_short && !NAME(are_mostly_equal)(args->indptr, 0, args->n_rows)) NAME(plain_rows)(args, begin, end);
    else if (NAME(are_equal_groups)(args->indptr, args->n_rows)) NAME(spmv_equal)(args, begin, end, FETCHES(args));
    else if (FETCHES(args)) NAME(spmv_fetching)(args, begin, end);
    else NAME(spmv_resident)(args, begin, end);
}
