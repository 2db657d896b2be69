/* Sums of sixteen rows for float32; included by spmv_masked64.h. */

/* Return the sum of each quarter: those of a, then those of b, c and d. */
ASP_INLINE __m512 NAME(fold_quarters)(__m512 a, __m512 b, __m512 c, __m512 d)
{
    const __m512 ab = _mm512_add_ps(_mm512_unpacklo_ps(a, b), _mm512_unpackhi_ps(a, b));
    const __m512 cd = _mm512_add_ps(_mm512_unpacklo_ps(c, d), _mm512_unpackhi_ps(c, d));
    const __m512 sums = _mm512_add_ps(_mm512_shuffle_ps(ab, cd, 0x44), _mm512_shuffle_ps(ab, cd, 0xee));
    return _mm512_permutexvar_ps(_mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15), sums);
}

/* Return the sum of each pair of lanes: those of a, then those of b. */
ASP_INLINE __m512 NAME(fold_pairs)(__m512 a, __m512 b)
{
    const __m512 sums = _mm512_add_ps(_mm512_shuffle_ps(a, b, 0x88), _mm512_shuffle_ps(a, b, 0xdd));
    return _mm512_permutexvar_ps(_mm512_setr_epi32(0, 1, 4, 5, 8, 9, 12, 13, 2, 3, 6, 7, 10, 11, 14, 15), sums);
}

/* Products of eight rows with at most two nonzeros each, two lanes per row. */
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
/* Return the products of n <= 16 nonzeros, followed by zeros. They do not pass through a buffer, because a vector load
 * after partial stores stalls. (For longer rows the branches would cost more.) */
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

#include "spmv_equal_rows.h"

/* Compute y[0..15] for sixteen rows with at most GROUP_NONZEROS nonzeros. */
ASP_INLINE void NAME(sixteen_rows)(const I *indptr, const I *indices, const float *data, const float *x, float *y,
                                   int add, int fetch)
{
    const __m512i lane = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    const __m512i length = LENGTHS(indptr);
    __m512 sums;
#if !GATHERS
    const __mmask16 used = _mm512_test_epi32_mask(length, length);
    const int64_t n_products = indptr[16] - indptr[0];
    /* At most one nonzero per row: only the addition that turns -0 into 0 remains. */
    if (n_products == __builtin_popcount(used)) {
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

#undef ROWS_OF_2
