/* C[i, :] = A[i] B for rows [begin, end): a tile of C's row stays in registers while A's row is read once.
 *
 * Complex numbers are pairs of reals: one tile of sums for the real parts of A, one for the imaginary parts, joined
 * when the row is done.
 */

/* Sets of sums: narrow tiles have too few sums to hide the latency of a fused multiply-add. */
#if WORDS == 2
#define SETS(nv) 1
#else
#define SETS(nv) ((nv) == 1 ? 4 : (nv) <= 4 ? 2 : 1)
#endif

/* Where row `index` of B begins. The address is made once: as part of each load's it would cost an operation each. */
ASP_INLINE const R *NAME(row_of)(const R *B, int64_t index, int64_t ldb)
{
    const R *row = B + index * ldb;
    ASP_PIN(row);
    return row;
}

/* sum += a row of B times a number. */
#if WORDS == 2
#define SUMS sum, imaginary
ASP_INLINE void NAME(add_entry)(const int nv, const int masked, const R *b, const R *a, VM mask, V *sum, V *imaginary)
{
    const V real = v_set1(a[0]);
#else
#define SUMS sum
ASP_INLINE void NAME(add_entry)(const int nv, const int masked, const R *b, V real, VM mask, V *sum)
{
#endif
    ASP_UNROLL for (int v = 0; v < nv; v++)
    {
        const V x = masked && v == nv - 1 ? v_loadm(b + v * VL, mask) : v_load(b + v * VL);
        sum[v] = v_fma(real, x, sum[v]);
#if WORDS == 2
        imaginary[v] = v_fma(v_set1(a[1]), x, imaginary[v]);
#endif
    }
}

ASP_INLINE void NAME(fetch_row)(const int nv, const R *b)
{
    ASP_UNROLL for (int v = 0; v < nv; v += (64 / RBYTES) / VL)
        __builtin_prefetch((const char *)b + v * VL * RBYTES);
}

/* sum += A[i] B for the nonzeros [k, stop) of one row; rows of B named `ahead` nonzeros later are fetched meanwhile
 * (0: none). Of several sets of sums the first is what the others were added to. */
#if WORDS == 2
ASP_INLINE void NAME(add_row)(const int nv, const int masked, const int fetch, const I *indices, const R *data,
                              int64_t ahead, int64_t k, int64_t stop, const R *B, int64_t ldb, VM mask, V *sum,
                              V *imaginary)
#else
ASP_INLINE void NAME(add_row)(const int nv, const int masked, const int fetch, const I *indices, const R *data,
                              int64_t ahead, int64_t k, int64_t stop, const R *B, int64_t ldb, VM mask, V *sum)
#endif
{
#if WORDS == 1
    const int sets = SETS(nv);
    for (; sets > 1 && k + sets <= stop; k += sets) {
        V a[4];
        /* All values first: each right before its use is slower by a third. */
        ASP_UNROLL for (int s = 0; s < sets; s++)
        {
            a[s] = v_set1(data[k + s]);
            ASP_PIN_VECTOR(a[s]);
        }
        ASP_UNROLL for (int s = 0; s < sets; s++)
        {
            if (fetch) NAME(fetch_row)(nv, B + indices[k + s + ahead] * ldb);
            NAME(add_entry)(nv, masked, NAME(row_of)(B, indices[k + s], ldb), a[s], mask, sum + s * nv);
        }
    }
#endif
    for (; k < stop; k++) {
        if (fetch) NAME(fetch_row)(nv, B + indices[k + ahead] * ldb);
#if WORDS == 2
        NAME(add_entry)(nv, masked, NAME(row_of)(B, indices[k], ldb), data + 2 * k, mask, SUMS);
#else
        NAME(add_entry)(nv, masked, NAME(row_of)(B, indices[k], ldb), v_set1(data[k]), mask, SUMS);
#endif
    }
#if WORDS == 1
    ASP_UNROLL for (int v = nv; v < nv * sets; v++) sum[v % nv] = sum[v % nv] + sum[v];
#endif
}

/* The tile of `nv` vectors from real column j on; its last vector holds `lanes` columns (VL unless masked). */
ASP_INLINE void NAME(tile)(const int nv, const int masked, const asp_args *args, int64_t begin, int64_t end, int64_t j,
                           int lanes)
{
    /* Copies: a store to C could change what args points at, as far as the compiler knows. */
    const I *indptr = args->indptr, *indices = args->indices;
    const R *data = args->data, *B = (const R *)args->B + j;
    const int accumulate = args->accumulate;
#if WORDS == 1
    const int stream = args->stream && !masked;
#endif
    R *C = (R *)args->C + j;
    const int64_t ldb = args->ldb * WORDS, ldc = args->ldc * WORDS, giant = args->giant_length;
    const int64_t prefetch = args->prefetch, prefetch_end = args->nnz - prefetch;
    const VM mask = v_mask(lanes);
    (void)mask;
    for (int64_t i = begin; i < end; i++) {
        const int64_t k = indptr[i], stop = indptr[i + 1];
        if (stop - k > giant) {
            if (j == 0) asp_note_giant(args, i);
            continue;
        }
        V sum[TILE_MOST];
        ASP_UNROLL for (int v = 0; v < TILE_MOST; v++) sum[v] = v_zero();
#if WORDS == 2
        V imaginary[TILE_MOST];
        ASP_UNROLL for (int v = 0; v < nv; v++) imaginary[v] = v_zero();
#endif
        if (prefetch && stop <= prefetch_end) NAME(add_row)(nv, masked, 1, indices, data, prefetch, k, stop, B, ldb, mask, SUMS);
        else NAME(add_row)(nv, masked, 0, indices, data, 0, k, stop, B, ldb, mask, SUMS);
        R *c = C + i * ldc;
#if WORDS == 2
        NAME(join)(c, nv, sum, imaginary, (nv - 1) * VL + lanes, accumulate);
#else
        if (accumulate) {
            const V one = v_set1(1);
            ASP_UNROLL for (int v = 0; v < nv; v++)
                sum[v] = v_fma(one, masked && v == nv - 1 ? v_loadm(c + v * VL, mask) : v_load(c + v * VL), sum[v]);
        }
        if (stream) {
            ASP_UNROLL for (int v = 0; v < nv; v++) v_stream(c + v * VL, sum[v]);
            continue;
        }
        ASP_UNROLL for (int v = 0; v < nv; v++)
        {
            if (masked && v == nv - 1) v_storem(c + v * VL, mask, sum[v]);
            else v_store(c + v * VL, sum[v]);
        }
#endif
    }
}

#define CASE(nv)                                                             \
    static ASP_NOINLINE void NAME(whole_##nv)(TILE_ARGUMENTS) { NAME(tile)(nv, 0, args, begin, end, j, lanes); } \
    static ASP_NOINLINE void NAME(masked_##nv)(TILE_ARGUMENTS) { NAME(tile)(nv, 1, args, begin, end, j, lanes); }
#define TILE_ARGUMENTS const asp_args *args, int64_t begin, int64_t end, int64_t j, int lanes
TILE_CASES(CASE)
#undef CASE

static void NAME(spmm)(const asp_args *args, int64_t begin, int64_t end)
{
    typedef void (*tile)(TILE_ARGUMENTS);
#define CASE(nv) {NAME(whole_##nv), NAME(masked_##nv)},
    static const tile tiles[][2] = {TILE_CASES(CASE)};
#undef CASE
    const int64_t width = args->n_vecs * WORDS;
    for (int64_t j = 0; j < width;) {
        const int64_t left = (width - j + VL - 1) / VL, passes = (left + TILE_MOST - 1) / TILE_MOST;
        const int nv = (int)((left + passes - 1) / passes);
        const int64_t covered = asp_min((int64_t)nv * VL, width - j);
        const int lanes = (int)(covered - (int64_t)(nv - 1) * VL);
        tiles[nv - 1][lanes < VL](args, begin, end, j, lanes);
        j += covered;
    }
}
#undef SUMS
#undef SETS
