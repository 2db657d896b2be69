/* float32: sums of sixteen rows, and of one long row. */

/* Elements of x of eight nonzeros, and of fewer than that under a mask; products of both. */
#if GATHERS
#define X8(k) _mm256_i32gather_ps(x, INDEX8(indices + (k)), 4)
#define X8_MASKED(m, k) _mm256_mmask_i32gather_ps(_mm256_setzero_ps(), m, INDEX8_MASKED(m, indices + (k)), x, 4)
#else
#define X8(k) LOOKUP(indices + (k), x)
#define X8_MASKED(m, k) NAME(lookup_first)(m, INDEX8_MASKED(m, indices + (k)), x)
ASP_INLINE __m256 NAME(lookup_first)(__mmask8 m, __m256i at, const float *x)
{
    int32_t places[8] __attribute__((aligned(32)));
    if (!m) return _mm256_setzero_ps(); /* x may be empty */
    _mm256_store_si256((__m256i *)places, at);
    return _mm256_maskz_mov_ps(m, asp_lookup_f32_i32(places, x));
}
#endif
#define PRODUCT8(k) _mm256_mul_ps(_mm256_loadu_ps(data + (k)), X8(k))
#define PRODUCT8_MASKED(m, k) _mm256_mul_ps(_mm256_maskz_loadu_ps(m, data + (k)), X8_MASKED(m, k))

/* Quarters (128 bits) [a0 + a1, a2 + a3, b0 + b1, b2 + b3]. */
ASP_INLINE __m512 NAME(fold)(__m512 a, __m512 b)
{
    return _mm512_add_ps(_mm512_shuffle_f32x4(a, b, 0x88), _mm512_shuffle_f32x4(a, b, 0xdd));
}

/* The sum of each quarter: those of a, then those of b, c and d. */
ASP_INLINE __m512 NAME(fold_quarters)(__m512 a, __m512 b, __m512 c, __m512 d)
{
    const __m512 ab = _mm512_add_ps(_mm512_unpacklo_ps(a, b), _mm512_unpackhi_ps(a, b));
    const __m512 cd = _mm512_add_ps(_mm512_unpacklo_ps(c, d), _mm512_unpackhi_ps(c, d));
    const __m512 sums = _mm512_add_ps(_mm512_shuffle_ps(ab, cd, 0x44), _mm512_shuffle_ps(ab, cd, 0xee));
    return _mm512_permutexvar_ps(_mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15), sums);
}

/* The sum of each pair of lanes: those of a, then those of b. */
ASP_INLINE __m512 NAME(fold_pairs)(__m512 a, __m512 b)
{
    const __m512 sums = _mm512_add_ps(_mm512_shuffle_ps(a, b, 0x88), _mm512_shuffle_ps(a, b, 0xdd));
    return _mm512_permutexvar_ps(_mm512_setr_epi32(0, 1, 4, 5, 8, 9, 12, 13, 2, 3, 6, 7, 10, 11, 14, 15), sums);
}

ASP_INLINE float NAME(one_row)(int64_t k, int64_t stop, const I *indices, const float *data, const float *x,
                               int fetch)
{
    __m256 a = _mm256_setzero_ps(), b = a;
    for (; k + 16 <= stop; k += 16) {
        FETCH_AHEAD(indices + k);
        FETCH_AHEAD(data + k);
        a = _mm256_fmadd_ps(_mm256_loadu_ps(data + k), X8(k), a);
        b = _mm256_fmadd_ps(_mm256_loadu_ps(data + k + 8), X8(k + 8), b);
    }
    if (k + 8 <= stop) {
        FETCH_AHEAD(indices + k);
        FETCH_AHEAD(data + k);
        a = _mm256_add_ps(a, PRODUCT8(k));
        k += 8;
    }
    FETCH_AHEAD(indices + k);
    FETCH_AHEAD(data + k);
    const __mmask8 rest = (__mmask8)((1u << (stop - k)) - 1);
    b = _mm256_add_ps(b, PRODUCT8_MASKED(rest, k));
    a = _mm256_add_ps(a, b);
    __m128 s = _mm_add_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
    s = _mm_add_ps(s, _mm_movehl_ps(s, s));
    return _mm_cvtss_f32(_mm_add_ss(s, _mm_movehdup_ps(s)));
}

/* Products of nonzeros [start, stop) to buffer; up to 7 floats more are written. */
ASP_INLINE void NAME(products)(float *buffer, int64_t start, int64_t stop, const I *indices, const float *data,
                               const float *x, int fetch)
{
    int64_t k = start;
    for (; k + 8 <= stop; k += 8, buffer += 8) {
        FETCH_AHEAD(indices + k);
        FETCH_AHEAD(data + k);
        _mm256_store_ps(buffer, PRODUCT8(k));
    }
    const __mmask8 rest = (__mmask8)((1u << (stop - k)) - 1);
    _mm256_store_ps(buffer, PRODUCT8_MASKED(rest, k));
}

/* Eight rows of at most two nonzeros, spread two lanes to a row. */
#define ROWS_OF_2(first)                                                                                         \
    NAME(pairs)(indices + indptr[first], data + indptr[first], x,                                                \
                _mm512_cmplt_epi32_mask(_mm512_and_epi32(lane, _mm512_set1_epi32(1)),                            \
                                        _mm512_permutexvar_epi32(_mm512_add_epi32(_mm512_srli_epi32(lane, 1),    \
                                                                                  _mm512_set1_epi32(first)),     \
                                                                 length)))
#if GATHERS
ASP_INLINE __m512 NAME(pairs)(const I *indices, const float *data, const float *x, __mmask16 m)
{
    const __m512 xs = _mm512_mask_i32gather_ps(_mm512_setzero_ps(), m, INDEX16_SPREAD(m, indices), x, 4);
    return _mm512_mul_ps(_mm512_maskz_expandloadu_ps(m, data), xs);
}
#else
/* Products of n nonzeros, n <= 16, then zeros. Not by way of a buffer: what was stored in parts is slow to load whole.
 * (For longer rows the branches cost more than that.) */
ASP_INLINE __m512 NAME(few)(int64_t n, const I *indices, const float *data, const float *x)
{
    const __mmask8 rest = (__mmask8)((1u << (n > 8 ? n - 8 : n)) - 1);
    if (n <= 8) return _mm512_insertf32x8(_mm512_setzero_ps(), PRODUCT8_MASKED(rest, 0), 0);
    const __m256 low = PRODUCT8(0), high = n == 16 ? PRODUCT8(8) : PRODUCT8_MASKED(rest, 8);
    return _mm512_insertf32x8(_mm512_castps256_ps512(low), high, 1);
}

ASP_INLINE __m512 NAME(pairs)(const I *indices, const float *data, const float *x, __mmask16 m)
{
    return _mm512_maskz_expand_ps(m, NAME(few)(__builtin_popcount(m), indices, data, x));
}
#endif

/* Lanes in use when every 2^shift lanes hold a row, rows from `first` on. */
#define LANES(shift, first)                                                                                      \
    _mm512_cmplt_epi32_mask(_mm512_and_epi32(lane, _mm512_set1_epi32((1 << (shift)) - 1)),                       \
                            _mm512_permutexvar_epi32(                                                            \
                                _mm512_add_epi32(_mm512_srli_epi32(lane, shift), _mm512_set1_epi32(first)), length))
#define SPREAD(shift, first) _mm512_maskz_expand_ps(LANES(shift, first), _mm512_loadu_ps(buffer + (indptr[first] - start)))

ASP_INLINE __m512 NAME(any_row)(const float *products, int64_t k, int64_t stop)
{
    if (stop - k <= 16) return _mm512_maskz_loadu_ps((__mmask16)((1u << (stop - k)) - 1), products + k);
    __m512 sum = _mm512_loadu_ps(products + k);
    for (k += 16; k + 16 <= stop; k += 16) sum = _mm512_add_ps(sum, _mm512_loadu_ps(products + k));
    const __mmask16 rest = (__mmask16)((1u << (stop - k)) - 1);
    return _mm512_add_ps(sum, _mm512_maskz_loadu_ps(rest, products + k));
}
#define ANY_ROW(i) NAME(any_row)(buffer, indptr[i] - start, indptr[(i) + 1] - start)
#define ANY_ROWS(i) NAME(fold)(NAME(fold)(ANY_ROW(i), ANY_ROW((i) + 1)), NAME(fold)(ANY_ROW((i) + 2), ANY_ROW((i) + 3)))

ASP_INLINE void NAME(sixteen_rows)(const I *indptr, const I *indices, const float *data, const float *x, float *y,
                                   int add, int fetch)
{
    const __m512i lane = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    const __m512i length = LENGTHS(indptr);
    __m512 sums;
#if !GATHERS
    const __mmask16 used = _mm512_test_epi32_mask(length, length);
    const int64_t n_products = indptr[16] - indptr[0];
    if (n_products == __builtin_popcount(used)) { /* rows of at most one: nothing to add but what makes -0 a sum */
        sums = NAME(few)(n_products, indices + indptr[0], data + indptr[0], x);
        sums = _mm512_add_ps(_mm512_maskz_expand_ps(used, sums), _mm512_setzero_ps());
    } else
#endif
    if (!_mm512_cmpgt_epi32_mask(length, _mm512_set1_epi32(2))) {
        sums = NAME(fold_pairs)(ROWS_OF_2(0), ROWS_OF_2(8));
    } else {
        float buffer[GROUP_NONZEROS + 16] __attribute__((aligned(64)));
        const int64_t start = indptr[0];
        NAME(products)(buffer, indptr[0], indptr[16], indices, data, x, fetch);
        if (!_mm512_cmpgt_epi32_mask(length, _mm512_set1_epi32(4)))
            sums = NAME(fold_quarters)(SPREAD(2, 0), SPREAD(2, 4), SPREAD(2, 8), SPREAD(2, 12));
        else if (!_mm512_cmpgt_epi32_mask(length, _mm512_set1_epi32(8)))
            sums = NAME(fold_quarters)(NAME(fold)(SPREAD(3, 0), SPREAD(3, 2)), NAME(fold)(SPREAD(3, 4), SPREAD(3, 6)),
                                       NAME(fold)(SPREAD(3, 8), SPREAD(3, 10)),
                                       NAME(fold)(SPREAD(3, 12), SPREAD(3, 14)));
        else sums = NAME(fold_quarters)(ANY_ROWS(0), ANY_ROWS(4), ANY_ROWS(8), ANY_ROWS(12));
    }
    _mm512_storeu_ps(y, add ? _mm512_add_ps(_mm512_loadu_ps(y), sums) : sums);
}

#undef X8
#undef X8_MASKED
#undef PRODUCT8
#undef PRODUCT8_MASKED
#undef ROWS_OF_2
#undef LANES
#undef SPREAD
#undef ANY_ROW
#undef ANY_ROWS
