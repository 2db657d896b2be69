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

static void NAME(spmv)(const asp_args *args, int64_t begin, int64_t end)
{
    const int is_short = args->nnz + args->n_rows < REMEMBERED && args->nnz < FEW_NONZEROS * args->n_rows;
    if (args->n_cols > INT32_MAX) NAME(spmv_plain)(args, begin, end);
    else if (is_short && !NAME(are_mostly_equal)(args->indptr, 0, args->n_rows)) NAME(plain_rows)(args, begin, end);
    else if (FETCHES(args)) NAME(spmv_fetching)(args, begin, end);
    else NAME(spmv_resident)(args, begin, end);
}
