/* C += A[rows]^T B[rows]: a row of B stays in registers and is added, scaled, to the rows of C named by the column
 * indices of A's row. */

/* The last `lanes` reals of each row, fewer than VL, are added in pieces of 8, 4, 2 and 1. Masked loads are not used: they
 * stall on every recent store to the same bytes, including bytes of the next row that the mask excludes. */
#define PIECE_(n) ASP_GLUE(ISA, TAG, ITAG, piece##n)
typedef R PIECE_(8) __attribute__((vector_size(8 * RBYTES)));
typedef R PIECE_(4) __attribute__((vector_size(4 * RBYTES)));
typedef R PIECE_(2) __attribute__((vector_size(2 * RBYTES)));
typedef R PIECE_(1);

#define ROW_PIECE(n)                                     \
    PIECE_(n) b##n = {0}, t##n = {0};                    \
    if (lanes & n) {                                     \
        memcpy(&b##n, b, sizeof b##n);                   \
        b += n;                                          \
        if (WORDS == 2) memcpy(&t##n, t, sizeof t##n);   \
        t += n;                                          \
    }
#define ADD_PIECE(n)                                     \
    if (lanes & n) {                                     \
        PIECE_(n) x;                                     \
        memcpy(&x, c, sizeof x);                         \
        x += re * b##n;                                  \
        if (WORDS == 2) x += im * t##n;                  \
        memcpy(c, &x, sizeof x);                         \
        c += n;                                          \
    }

/* Add nv whole vectors from real column j on and, for real values, `lanes` more reals. */
ASP_TILE void NAME(scatter_tile)(const int nv, const int lanes, const asp_args *args, int64_t begin, int64_t end,
                                int64_t j)
{
    const I *indptr = args->indptr, *indices = args->indices;
    const R *data = args->data, *B = (const R *)args->B + j;
    R *C = (R *)args->C + j;
    const int64_t ldb = args->ldb * WORDS, ldc = args->ldc * WORDS, last = args->nnz - 1, ahead = args->prefetch;
    for (int64_t i = begin; i < end; i++) {
        int64_t k = indptr[i];
        const int64_t stop = indptr[i + 1];
        if (k >= stop) continue; /* the row of B is not read */
        const R *b = B + i * ldb, *t = b;
        V row[TILE_MAX];
        ASP_UNROLL for (int v = 0; v < nv; v++) row[v] = v_load(b + v * VL);
#if WORDS == 2
        V turned[TILE_MAX]; /* i times the row */
        R words[TILE_MAX * VL];
        NAME(turn)(words, b, nv * VL);
        ASP_UNROLL for (int v = 0; v < nv; v++) turned[v] = v_load(words + v * VL);
#endif
        b += nv * VL;
        ROW_PIECE(8) ROW_PIECE(4) ROW_PIECE(2) ROW_PIECE(1)
        (void)t;
        do {
            R *c = C + indices[k] * ldc;
            if (ahead) {
                const char *later = (const char *)(C + indices[asp_min(k + ahead, last)] * ldc);
                ASP_UNROLL for (int v = 0; v < nv; v += (64 / RBYTES) / VL)
                    __builtin_prefetch(later + v * VL * RBYTES, 1);
                if (lanes) __builtin_prefetch(later + (nv * VL + lanes) * RBYTES - 1, 1);
            }
            const V a = v_set1(data[k * WORDS]);
            ASP_UNROLL for (int v = 0; v < nv; v++)
            {
                V x = v_fma(a, row[v], v_load(c + v * VL));
#if WORDS == 2
                x = v_fma(v_set1(data[k * 2 + 1]), turned[v], x);
#endif
                v_store(c + v * VL, x);
            }
            const R re = data[k * WORDS], im = 0;
            (void)re, (void)im;
            c += nv * VL;
            ADD_PIECE(8) ADD_PIECE(4) ADD_PIECE(2) ADD_PIECE(1)
        } while (++k < stop);
    }
}

ASP_TILE void NAME(scatter_rest)(const int lanes, const asp_args *args, int64_t begin, int64_t end, int64_t j)
{
    const I *indptr = args->indptr, *indices = args->indices;
    const R *data = args->data, *B = (const R *)args->B + j;
    R *C = (R *)args->C + j;
    const int64_t ldb = args->ldb * WORDS, ldc = args->ldc * WORDS;
    for (int64_t i = begin; i < end; i++) {
        R turned[VL] = {0};
        const R *b = B + i * ldb, *t = turned;
#if WORDS == 2
        NAME(turn)(turned, b, lanes);
#endif
        ROW_PIECE(8) ROW_PIECE(4) ROW_PIECE(2) ROW_PIECE(1)
        const int64_t stop = indptr[i + 1];
        for (int64_t k = indptr[i]; k < stop; k++) {
            R *c = C + indices[k] * ldc;
            const R re = data[k * WORDS], im = WORDS == 2 ? data[k * WORDS + WORDS - 1] : 0;
            (void)im;
            ADD_PIECE(8) ADD_PIECE(4) ADD_PIECE(2) ADD_PIECE(1)
        }
    }
}

#define SCATTER_ARGUMENTS const asp_args *args, int64_t begin, int64_t end, int64_t j
#define CASE(nv) \
    static ASP_NOINLINE void NAME(scatter_tile_##nv)(SCATTER_ARGUMENTS) { NAME(scatter_tile)(nv, 0, args, begin, end, j); }
SCATTER_CASES(CASE)
#undef CASE
#define CASE(lanes)                                                                                              \
    static ASP_NOINLINE void NAME(scatter_rest_##lanes)(SCATTER_ARGUMENTS)                                       \
    {                                                                                                            \
        NAME(scatter_rest)(lanes < VL ? lanes : 0, args, begin, end, j);                                         \
    }
REST_CASES(CASE)
#undef CASE

#if WORDS == 1
/* Tiles of nv whole vectors and `lanes` more reals. Reading A again for these would take longer. */
#define CASE(nv)                                                                             \
    static ASP_NOINLINE void NAME(scatter_tail_##nv)(SCATTER_ARGUMENTS, int lanes)            \
    {                                                                                        \
        NAME(scatter_tile)(nv, lanes, args, begin, end, j);                                  \
    }
CASES_8(CASE)
#undef CASE
#endif

static void NAME(scatter)(const asp_args *args, int64_t begin, int64_t end)
{
    typedef void (*part)(SCATTER_ARGUMENTS);
#define CASE(n) NAME(scatter_tile_##n),
    static const part tiles[] = {SCATTER_CASES(CASE)};
#undef CASE
#define CASE(n) NAME(scatter_rest_##n),
    static const part rests[] = {REST_CASES(CASE)};
#undef CASE
    const int64_t width = args->n_vecs * WORDS, most = (int64_t)(sizeof tiles / sizeof tiles[0]);
    int64_t j = 0;
#if WORDS == 1
#define CASE(n) NAME(scatter_tail_##n),
    static void (*const tails[])(SCATTER_ARGUMENTS, int) = {CASES_8(CASE)};
#undef CASE
    const int64_t lanes = width % VL, last = width > VL && lanes ? asp_min(8, width / VL) : 0; /* vectors before them */
#else
    const int64_t last = 0;
#endif
    while (width - j >= VL * (last + 1)) {
        const int64_t left = (width - j) / VL - last, passes = (left + most - 1) / most, nv = (left + passes - 1) / passes;
        tiles[nv - 1](args, begin, end, j);
        j += nv * VL;
    }
#if WORDS == 1
    if (last) {
        tails[last - 1](args, begin, end, j, (int)lanes);
        return;
    }
#endif
    if (j < width) rests[width - j - 1](args, begin, end, j);
}
#undef PIECE_
#undef ROW_PIECE
#undef ADD_PIECE
#undef SCATTER_ARGUMENTS
