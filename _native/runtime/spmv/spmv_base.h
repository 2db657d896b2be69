/* y[i] = A[i] x in plain C, with four partial sums for long rows. */
#ifndef FETCH_AHEAD
/* Prefetch indices or values of later nonzeros, n elements beginning at p plus the distances below. They are
 * contiguous, but random loads of x keep the hardware prefetcher from recognising them. They are prefetched early into
 * the L2 cache and late into the L1 cache: a fetch into L1 occupies one of the few line-fill buffers that loads of x
 * need, and is short from L2. For a small x prefetching only costs. Beyond the end of an array it has no effect,
 * because a prefetch is a hint. */
#define FETCH_AHEAD(p, n)                                                                \
    if (fetch)                                                                           \
        ASP_UNROLL for (int line = 0; line < (int)((n) * sizeof *(p)); line += 64) {     \
            __builtin_prefetch((const char *)(p) + line + FETCHED_EARLY_BYTES, 0, 2);    \
            __builtin_prefetch((const char *)(p) + line + FETCHED_LATE_BYTES);           \
        }
#define FETCHES(args) ((args)->n_cols >= (FETCHED_X_BYTES) / (int64_t)sizeof(R))
/* Minimum size of x, and prefetch distances into the L2 and the L1 cache, all in bytes. */
enum { FETCHED_X_BYTES = 2 << 20, FETCHED_EARLY_BYTES = 8192, FETCHED_LATE_BYTES = 1024 };
#endif
/* Compute the rows [begin, end). */
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
