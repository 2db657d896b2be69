/* C += A[rows]^T B[rows]: the row of B stays in registers and is added, scaled, to the rows of C that A's row names. */

ASP_INLINE void NAME(scatter_tile)(const int nv, const int masked, const asp_args *args, int64_t begin, int64_t end,
                                   int64_t j, int lanes)
{
    const I *indptr = args->indptr, *indices = args->indices;
    const R *data = args->data, *B = (const R *)args->B + j;
    R *C = (R *)args->C + j;
    const int64_t ldb = args->ldb * WORDS, ldc = args->ldc * WORDS, last = args->nnz - 1, ahead = args->prefetch;
    const VM mask = v_mask(lanes);
    (void)mask;
    for (int64_t i = begin; i < end; i++) {
        const R *b = B + i * ldb;
        V row[TILE_MOST];
        ASP_UNROLL for (int v = 0; v < nv; v++)
            row[v] = masked && v == nv - 1 ? v_loadm(b + v * VL, mask) : v_load(b + v * VL);
#if WORDS == 2
        V turned[TILE_MOST]; /* i times the row */
        NAME(turn)(turned, b, nv, (nv - 1) * VL + lanes);
#endif
        const int64_t stop = indptr[i + 1];
        for (int64_t k = indptr[i]; k < stop; k++) {
            R *c = C + indices[k] * ldc;
            if (ahead) {
                const char *later = (const char *)(C + indices[asp_min(k + ahead, last)] * ldc);
                ASP_UNROLL for (int v = 0; v < nv; v += (64 / RBYTES) / VL)
                    __builtin_prefetch(later + v * VL * RBYTES, 1);
            }
            const V a = v_set1(data[k * WORDS]);
            ASP_UNROLL for (int v = 0; v < nv; v++)
            {
                const int last_one = masked && v == nv - 1;
                V x = last_one ? v_loadm(c + v * VL, mask) : v_load(c + v * VL);
                x = v_fma(a, row[v], x);
#if WORDS == 2
                x = v_fma(v_set1(data[k * 2 + 1]), turned[v], x);
#endif
                if (last_one) v_storem(c + v * VL, mask, x);
                else v_store(c + v * VL, x);
            }
        }
    }
}

#define CASE(nv)                                                                                                 \
    static ASP_NOINLINE void NAME(scatter_whole_##nv)(TILE_ARGUMENTS)                                            \
    {                                                                                                            \
        NAME(scatter_tile)(nv, 0, args, begin, end, j, lanes);                                                   \
    }                                                                                                            \
    static ASP_NOINLINE void NAME(scatter_masked_##nv)(TILE_ARGUMENTS)                                           \
    {                                                                                                            \
        NAME(scatter_tile)(nv, 1, args, begin, end, j, lanes);                                                   \
    }
SCATTER_CASES(CASE)
#undef CASE

#if WORDS == 1
/* One dense column: y[indices[k]] += data[k] * x[i]. */
static void NAME(scatter_vector)(const asp_args *args, int64_t begin, int64_t end)
{
    const I *indptr = args->indptr, *indices = args->indices;
    const R *data = args->data, *x = args->B;
    R *y = args->C;
    for (int64_t i = begin; i < end; i++) {
        const R xi = x[i];
        const int64_t stop = indptr[i + 1];
        for (int64_t k = indptr[i]; k < stop; k++) y[indices[k]] += data[k] * xi;
    }
}
#endif

static void NAME(scatter)(const asp_args *args, int64_t begin, int64_t end)
{
    typedef void (*tile)(TILE_ARGUMENTS);
#define CASE(nv) {NAME(scatter_whole_##nv), NAME(scatter_masked_##nv)},
    static const tile tiles[][2] = {SCATTER_CASES(CASE)};
#undef CASE
    const int64_t width = args->n_vecs * WORDS;
    const int most = (int)(sizeof tiles / sizeof tiles[0]);
#if WORDS == 1
    if (width == 1 && args->ldb == 1 && args->ldc == 1) {
        NAME(scatter_vector)(args, begin, end);
        return;
    }
#endif
    for (int64_t j = 0; j < width;) {
        const int64_t left = (width - j + VL - 1) / VL, passes = (left + most - 1) / most;
        const int nv = (int)((left + passes - 1) / passes);
        const int64_t covered = asp_min((int64_t)nv * VL, width - j);
        const int lanes = (int)(covered - (int64_t)(nv - 1) * VL);
        tiles[nv - 1][lanes < VL](args, begin, end, j, lanes);
        j += covered;
    }
}
