/* C[i, :] = A[i] B for rows of B of 8 or 16 bytes (12 bytes: three float32) with AVX-512: the last entries of a row are
 * gathered under a mask, because loops over them would cost a branch misprediction per row, which is half of the time
 * for short rows. A gathered element has 8 bytes: a row of two float32, or half a row.
 *
 * The choice depends on the length of the row alone, so a row's result does not depend on the other rows. The results
 * are the same, bit for bit, without gather instructions (narrow_avx512.c: asp_rows_of).
 */
#define NNAME(x) NARROW_NAME(ISA, TAG, ITAG, COLUMNS, x)
#define IS_PAIR (COLUMNS * RBYTES == 8)
#define SECOND (COLUMNS == 3 ? 1 : COLUMNS / 2) /* first column of the second half; it overlaps the first of three */
#define AT_ONCE (IS_PAIR ? 8 : 4)               /* entries of a gather */

#if RBYTES == 4
#define P __m128
#define O(op) _mm_##op##_ps
#define O512(op) _mm512_##op##_ps
#define AS_ROWS(x) _mm512_castpd_ps(x)
#define HALF(x) _mm512_castps512_ps256(x), _mm512_extractf32x8_ps(x, 1)
#define QUARTER(x) _mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1)
#define V256 __m256
#define VW __m512
#define ADD256 _mm256_add_ps
#define VALUES(m, p) \
    _mm512_permutexvar_ps(each, _mm512_castps256_ps512(_mm256_maskz_loadu_ps(m, p)))
#else
#define P __m128d
#define O(op) _mm_##op##_pd
#define O512(op) _mm512_##op##_pd
#define AS_ROWS(x) (x)
#define HALF(x) _mm512_castpd512_pd256(x), _mm512_extractf64x4_pd(x, 1)
#define QUARTER(x) _mm256_castpd256_pd128(x), _mm256_extractf128_pd(x, 1)
#define V256 __m256d
#define VW __m512d
#define ADD256 _mm256_add_pd
#define VALUES(m, p) \
    _mm512_permutexvar_pd(each, _mm512_castpd256_pd512(_mm256_maskz_loadu_pd(m, p)))
#endif
#if COLUMNS * RBYTES == 16
#define GET(p) O(loadu)(p)
#define PUT(p, x) O(storeu)(p, x)
#elif IS_PAIR
#define GET(p) _mm_castpd_ps(_mm_load_sd((const double *)(p)))
#define PUT(p, x) _mm_store_sd((double *)(p), _mm_castps_pd(x))
#else
#define GET(p) _mm_maskz_loadu_ps((1u << COLUMNS) - 1, p)
#define PUT(p, x) _mm_mask_storeu_ps(p, (1u << COLUMNS) - 1, x)
#endif
#if IBYTES == 4
#define INDICES(m, p) _mm256_maskz_loadu_epi32(m, p)
#else
#define INDICES(m, p) _mm512_cvtepi64_epi32(_mm512_maskz_loadu_epi64(m, p))
#endif

/* Add the products of n <= AT_ONCE values and rows of B to `wide`. */
ASP_INLINE VW NNAME(gathered)(const int gathers, const R *data, const I *indices, int64_t n, const R *B, int32_t ldb,
                              VW wide)
{
#if RBYTES == 4
    const __m512i each = IS_PAIR ? _mm512_setr_epi32(0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7)
                                 : _mm512_setr_epi32(0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3);
#else
    const __m512i each = _mm512_setr_epi64(0, 0, 1, 1, 2, 2, 3, 3);
#endif
    const __mmask8 entries = (__mmask8)((1u << n) - 1), halves = (__mmask8)((1u << (8 / AT_ONCE * n)) - 1);
    __m256i at = _mm256_mullo_epi32(INDICES(entries, indices), _mm256_set1_epi32(ldb));
    if (!IS_PAIR) {
        at = _mm256_permutevar8x32_epi32(at, _mm256_setr_epi32(0, 0, 1, 1, 2, 2, 3, 3));
        at = _mm256_add_epi32(at, _mm256_setr_epi32(0, SECOND, 0, SECOND, 0, SECOND, 0, SECOND));
    }
    const __m512d found = asp_rows_of(gathers, halves, at, B, RBYTES);
    return O512(fmadd)(VALUES(entries, data), AS_ROWS(found), wide);
}

/* Return the sum of the rows in `wide`. */
ASP_INLINE P NNAME(folded)(VW wide)
{
    const V256 half = ADD256(HALF(wide));
    P total = O(add)(QUARTER(half));
#if RBYTES == 4
    if (IS_PAIR) total = _mm_add_ps(total, _mm_movehl_ps(total, total));
    if (COLUMNS == 3) total = _mm_shuffle_ps(total, total, _MM_SHUFFLE(3, 3, 1, 0));
#endif
    return total;
}

ASP_INLINE void NNAME(rows)(const int gathers, const asp_args *args, int64_t begin, int64_t end)
{
    const I *indptr = args->indptr, *indices = args->indices;
    const R *data = args->data, *B = args->B;
    R *C = args->C;
    const int64_t ldb = args->ldb, ldc = args->ldc, long_row = args->long_row_length;
    const int32_t *const places = args->places;
    const int accumulate = args->accumulate;
    for (int64_t i = begin; i < end; i++) {
        int64_t k = indptr[i];
        const int64_t stop = indptr[i + 1];
        R *const c = C + (places ? places[i] : i) * ldc;
        if (stop - k > long_row) {
            asp_note_long_row(args, i);
            continue;
        }
        P sum[4];
        ASP_UNROLL for (int s = 0; s < 4; s++) sum[s] = O(setzero)();
        VW wide = O512(setzero)();
        for (; IS_PAIR && k + AT_ONCE < stop; k += AT_ONCE)
            wide = NNAME(gathered)(gathers, data + k, indices + k, AT_ONCE, B, (int32_t)ldb, wide);
        const int is_gathered = IS_PAIR || stop - k <= GATHERED_ENTRIES;
        for (; is_gathered ? k + AT_ONCE < stop : k + 4 <= stop; k += 4)
            ASP_UNROLL for (int s = 0; s < 4; s++)
                sum[s] = O(fmadd)(O(set1)(data[k + s]), GET(B + indices[k + s] * ldb), sum[s]);
        for (; !is_gathered && k < stop; k++)
            sum[0] = O(fmadd)(O(set1)(data[k]), GET(B + indices[k] * ldb), sum[0]);
        P total = O(add)(O(add)(O(add)(sum[0], sum[1]), sum[2]), sum[3]);
        if (is_gathered) {
            wide = NNAME(gathered)(gathers, data + k, indices + k, stop - k, B, (int32_t)ldb, wide);
            total = O(add)(total, NNAME(folded)(wide));
        }
        if (accumulate) total = O(add)(GET(c), total);
        PUT(c, total);
    }
}

static void NNAME(gathering)(const asp_args *args, int64_t begin, int64_t end)
{
    const int is_near = args->n_cols * args->ldb <= INT32_MAX; /* offsets of 32 bits reach all rows of B */
    if (!is_near) NNAME(narrow)(args, begin, end);
    else if (asp_gathers()) NNAME(rows)(1, args, begin, end);
    else NNAME(rows)(0, args, begin, end);
}
#undef NNAME
#undef IS_PAIR
#undef SECOND
#undef AT_ONCE
#undef P
#undef O
#undef O512
#undef AS_ROWS
#undef HALF
#undef QUARTER
#undef V256
#undef VW
#undef ADD256
#undef VALUES
#undef GET
#undef PUT
#undef INDICES
