/* The kernels of complex_rows.c for one index type I. */
#define NNAME_(a, b) a##_##b
#define NNAME__(a, b) NNAME_(a, b)
#define NNAME(x) NNAME__(x, ITAG)

/* Run STEP(at, first, n) for the entries of each row, four at a time, FOLD for the sums, and STORE for the results. SUMS
 * declares and clears the sums. The last step computes the n last of the four entries from `first` on. The others are of
 * earlier rows, whose elements of x exist; where there are too few, `at` names the step's own entries instead. Rows of at
 * most SHORT entries run ONE(k) for each entry. */
#define FOR_ROWS(SUMS, STEP, FOLD, ONE, STORE)                                             \
    const int64_t least = indptr[0];                                                       \
    for (int64_t i = begin; i < end; i++) {                                                \
        int64_t k = indptr[i];                                                             \
        const int64_t stop = indptr[i + 1], first = stop - ENTRIES;                        \
        if (stop - k > args->long_row_length) {                                            \
            asp_note_long_row(args, i);                                                    \
            continue;                                                                      \
        }                                                                                  \
        SUMS;                                                                              \
        if (stop - k <= SHORT) {                                                           \
            for (; k < stop; k++) ONE(k);                                                  \
        } else {                                                                           \
            for (; k + ENTRIES < stop; k += ENTRIES) STEP(indices + k, k, ENTRIES);        \
            I own[ENTRIES];                                                                \
            const I *at = first < least ? own : indices + first;                           \
            if (first < least)                                                             \
                for (int l = 0; l < ENTRIES; l++) own[l] = indices[asp_max(first + l, k)]; \
            STEP(at, first, stop - k);                                                     \
            FOLD;                                                                          \
        }                                                                                  \
        STORE;                                                                             \
    }

/* Return the mask of the parts of the last n of four entries. */
#define PARTS(n) ((__mmask8)(0xFFu << 2 * (ENTRIES - (n))))

/* Return the elements of 16 bytes of x that `at` names. */
ASP_INLINE __m512d NNAME(elements)(const I *at, const double *x)
{
    const __m256d low = _mm256_insertf128_pd(_mm256_castpd128_pd256(_mm_loadu_pd(x + 2 * (int64_t)at[0])),
                                             _mm_loadu_pd(x + 2 * (int64_t)at[1]), 1);
    const __m256d high = _mm256_insertf128_pd(_mm256_castpd128_pd256(_mm_loadu_pd(x + 2 * (int64_t)at[2])),
                                              _mm_loadu_pd(x + 2 * (int64_t)at[3]), 1);
    return _mm512_insertf64x4(_mm512_castpd256_pd512(low), high, 1);
}

static void NNAME(complex128)(const asp_args *args, int64_t begin, int64_t end)
{
    const I *indptr = args->indptr, *indices = args->indices;
    const double *data = args->data, *x = args->B;
    double *y = args->C;
#define STEP(at, first, n)                                                               \
    do {                                                                                 \
        const __m512d rows = NNAME(elements)(at, x);                                     \
        const __m512d values = _mm512_maskz_loadu_pd(PARTS(n), data + 2 * (first));      \
        re = _mm512_mask3_fmadd_pd(values, rows, re, PARTS(n));                          \
        im = _mm512_mask3_fmadd_pd(values, _mm512_permute_pd(rows, 0x55), im, PARTS(n)); \
    } while (0)
#define STORE                                                                                      \
    __m128d total = _mm_unpacklo_pd(_mm_hsub_pd(by_part, by_part), _mm_hadd_pd(crossed, crossed)); \
    if (args->accumulate) total = _mm_add_pd(_mm_loadu_pd(y + 2 * i), total);                      \
    _mm_storeu_pd(y + 2 * i, total)
#define ONE(k)                                                                                         \
    do {                                                                                               \
        const __m128d row = _mm_loadu_pd(x + 2 * (int64_t)indices[k]), a = _mm_loadu_pd(data + 2 * k); \
        by_part = _mm_fmadd_pd(a, row, by_part);                                                       \
        crossed = _mm_fmadd_pd(a, _mm_permute_pd(row, 1), crossed);                                    \
    } while (0)
    FOR_ROWS(__m512d re = _mm512_setzero_pd(); __m512d im = re; __m128d by_part = _mm_setzero_pd();
             __m128d crossed = by_part, STEP, by_part = asp_quarters(re); crossed = asp_quarters(im), ONE, STORE)
#undef STEP
#undef ONE
#undef STORE
}

static void NNAME(complex64)(const asp_args *args, int64_t begin, int64_t end)
{
    const I *indptr = args->indptr, *indices = args->indices;
    const float *data = args->data, *x = args->B;
    float *y = args->C;
#define STEP(at, first, n)                                                                    \
    do {                                                                                      \
        const __mmask8 reals = PARTS(n);                                                      \
        const __m128 low = asp_two_of_8(x + 2 * (int64_t)(at)[0], x + 2 * (int64_t)(at)[1]);  \
        const __m128 high = asp_two_of_8(x + 2 * (int64_t)(at)[2], x + 2 * (int64_t)(at)[3]); \
        const __m256 rows = _mm256_insertf128_ps(_mm256_castps128_ps256(low), high, 1);       \
        const __m256 values = _mm256_maskz_loadu_ps(reals, data + 2 * (first));               \
        re = _mm256_mask3_fmadd_ps(values, rows, re, reals);                                  \
        im = _mm256_mask3_fmadd_ps(values, _mm256_permute_ps(rows, 0xB1), im, reals);         \
    } while (0)
#define STORE                                                                                           \
    __m128 total = _mm_unpacklo_ps(_mm_hsub_ps(by_part, by_part), _mm_hadd_ps(crossed, crossed));       \
    if (args->accumulate) total = _mm_add_ps(asp_of_8(y + 2 * i), total);                               \
    _mm_storel_pi((__m64 *)(y + 2 * i), total)
#define ONE(k)                                                                                \
    do {                                                                                      \
        const __m128 row = asp_of_8(x + 2 * (int64_t)indices[k]), a = asp_of_8(data + 2 * k); \
        by_part = _mm_fmadd_ps(a, row, by_part);                                              \
        crossed = _mm_fmadd_ps(a, _mm_permute_ps(row, 0xB1), crossed);                        \
    } while (0)
    FOR_ROWS(__m256 re = _mm256_setzero_ps(); __m256 im = re; __m128 by_part = _mm_setzero_ps();
             __m128 crossed = by_part, STEP, by_part = asp_pairs(re); crossed = asp_pairs(im), ONE, STORE)
#undef STEP
#undef ONE
#undef STORE
}

#undef PARTS
#undef FOR_ROWS
#undef NNAME
#undef NNAME_
#undef NNAME__
