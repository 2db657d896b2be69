/* y[i] = A[i] x in plain C: four sums for long rows. */
#ifndef FETCH_AHEAD
/* Indices and values of nonzeros that come later, as many as n that lie at p. They lie in a row, which the processor should
 * notice by itself, but loads of x from everywhere make it forget (docs/design/compiled-kernels.md). They are fetched into the
 * second cache early and into the first late: a line on its way to the first takes one of the few places that loads of x need,
 * and from the second it is there soon. Where x is small a fetch only costs. Beyond the end of an array nothing happens: a
 * fetch is a hint. */
#define FETCH_AHEAD(p, n)                                                                \
    if (fetch)                                                                           \
        ASP_UNROLL for (int line = 0; line < (int)((n) * sizeof *(p)); line += 64) {     \
            __builtin_prefetch((const char *)(p) + line + FETCHED_EARLY_BYTES, 0, 2);    \
            __builtin_prefetch((const char *)(p) + line + FETCHED_LATE_BYTES);           \
        }
#define FETCHES(args) ((args)->n_cols >= (FETCHED_X_BYTES) / (int64_t)sizeof(R))
enum { FETCHED_X_BYTES = 2 << 20, FETCHED_EARLY_BYTES = 8192, FETCHED_LATE_BYTES = 1024 };
#endif
static void NAME(SPMV_PLAIN)(const asp_args *args, int64_t begin, int64_t end)
{
    const I *indptr = args->indptr, *indices = args->indices;
    const R *data = args->data, *x = args->B;
    R *y = args->C;
    const int64_t long_row = args->long_row_length;
    const int add = args->accumulate;
    for (int64_t i = begin; i < end; i++) {
        int64_t k = indptr[i];
        const int64_t stop = indptr[i + 1];
        if (stop - k > long_row) {
            asp_note_long_row(args, i);
            continue;
        }
        R sum[4] = {0, 0, 0, 0};
        for (; k + 4 <= stop; k += 4)
            ASP_UNROLL for (int q = 0; q < 4; q++) sum[q] += data[k + q] * x[indices[k + q]];
        R rest = 0;
        for (; k < stop; k++) rest += data[k] * x[indices[k]];
        rest += (sum[0] + sum[1]) + (sum[2] + sum[3]);
        y[i] = add ? y[i] + rest : rest;
    }
}
