/* y[i] = A[i] x in plain C, with four partial sums for long rows.
 *
 * Shorter rows are summed in the order of their nonzeros: a second loop over what is left would be a second branch that
 * is mispredicted where lengths vary. Four rows of equal length at once took .93 to 1.45 times as long (Zen 5). */
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
/* Rows up to which processors remember all row ends from one product to the next, and nonzeros per row up to which
 * loops over single rows are then faster than vectors. */
enum { REMEMBERED_ROWS = 6144, FEW_NONZEROS = 4 };
enum { UNROLL_FROM = 48 }; /* nonzeros of a row from which four partial sums are faster than one */
/* Groups whose rows are compared, in matrices of that many rows or more. The step between them is a large prime number,
 * because rows at regular distances may all lie on the boundary of a grid. */
enum { SAMPLED_GROUPS = 16, SAMPLED_FROM_ROWS = 2048, SAMPLED_STEP = 2147483629 };
enum { SAMPLED_ROWS = 32 }; /* rows whose lengths are compared with the next row's */
#endif
/* Return a * b + c, everywhere rounded once or everywhere twice: the bits must not depend on the loop. */
#undef FUSED
#if VBYTES < 32 && !ASP_ARM
#define FUSED(a, b, c) ((a) * (b) + (c))
#elif RBYTES == 4
#define FUSED __builtin_fmaf
#else
#define FUSED __builtin_fma
#endif

/* Return the dot product of the nonzeros [k, stop) with x. */
static ASP_NOINLINE R NAME(plain_long)(int64_t k, int64_t stop, const I *indices, const R *data, const R *x)
{
    R sum[4] = {0, 0, 0, 0}, rest = 0;
    for (; k + 4 <= stop; k += 4)
        ASP_UNROLL for (int q = 0; q < 4; q++) sum[q] = FUSED(data[k + q], x[indices[k + q]], sum[q]);
    for (; k < stop; k++) rest = FUSED(data[k], x[indices[k]], rest);
    return rest + ((sum[0] + sum[1]) + (sum[2] + sum[3]));
}

/* Compute the rows [begin, end) one by one; `add` is a constant, because a branch on it would be the fourth of a row. */
ASP_INLINE void NAME(plain_rows_of)(const asp_args *args, int64_t begin, int64_t end, const int add)
{
    const I *indptr = args->indptr, *indices = args->indices;
    const R *data = args->data, *x = args->B;
    R *y = args->C;
    int64_t k = indptr[begin];
    for (int64_t i = begin; i < end; i++) {
        const int64_t stop = indptr[i + 1];
        R sum = 0;
        if (__builtin_expect(stop - k >= UNROLL_FROM, 0)) {
            if (stop - k > args->long_row_length) {
                asp_note_long_row(args, i);
                k = stop;
                continue;
            }
            sum = NAME(plain_long)(k, stop, indices, data, x);
            k = stop;
        }
        for (; k < stop; k++) {
            ASP_PIN(k); /* vector code for rows of few nonzeros has more branches */
            sum = FUSED(data[k], x[indices[k]], sum);
        }
        y[i] = add ? y[i] + sum : sum;
    }
}

/* Compute the rows [begin, end) one by one. */
ASP_INLINE void NAME(plain_rows)(const asp_args *args, int64_t begin, int64_t end)
{
    if (args->accumulate) NAME(plain_rows_of)(args, begin, end, 1);
    else NAME(plain_rows_of)(args, begin, end, 0);
}

/* Compute the rows [begin, end). */
static void NAME(SPMV_PLAIN)(const asp_args *args, int64_t begin, int64_t end)
{
    NAME(plain_rows)(args, begin, end);
}
