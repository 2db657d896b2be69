/* Sums of sixteen rows for float64; included by spmv_masked64.h. */

/* Return the sum of each quarter: those of a, then those of b. */
ASP_INLINE __m512d NAME(fold_quarters)(__m512d a, __m512d b)
{
    const __m512d sums = _mm512_add_pd(_mm512_unpacklo_pd(a, b), _mm512_unpackhi_pd(a, b));
    return _mm512_permutexvar_pd(_mm512_setr_epi64(0, 2, 4, 6, 1, 3, 5, 7), sums);
}

#if !GATHERS
/* Return the products of rows with at most one nonzero, given by the mask `used`; the first nonzero is k. Adding zero
 * turns -0 into 0, as a sum would. */
ASP_INLINE __m512d NAME(singles)(__mmask8 used, int64_t k, const I *indices, const double *data, const double *x)
{
    const __m512d few = used == 0xff ? PRODUCT8(k) : PRODUCT8_MASKED((__mmask8)((1u << __builtin_popcount(used)) - 1), k);
    return _mm512_add_pd(_mm512_maskz_expand_pd(used, few), _mm512_setzero_pd());
}
#endif

#include "spmv_equal_rows.h"

/* Compute the partial sums of four rows from their products: the sum of rows 0 and 1 folded with that of rows 2 and 3.
 * All rows take as many steps as the longest one, so that row ends cause few branches. */
ASP_INLINE __m512d NAME(sum_four)(const I *indptr, const double *products)
{
    const __m512i lane = _mm512_setr_epi64(0, 1, 2, 3, 4, 5, 6, 7);
    __m512d part[4];
    __m512i n[4];
    int64_t longest = 0;
    ASP_UNROLL for (int r = 0; r < 4; r++)
    {
        const int64_t length = indptr[r + 1] - indptr[r];
        n[r] = _mm512_set1_epi64(length);
        longest = asp_max(longest, length);
        part[r] = _mm512_maskz_loadu_pd(_mm512_cmplt_epi64_mask(lane, n[r]), products + indptr[r]);
    }
    for (int64_t k = 8; k < longest; k += 8) {
        const __m512i at = _mm512_add_epi64(lane, _mm512_set1_epi64(k));
        ASP_UNROLL for (int r = 0; r < 4; r++)
            part[r] = _mm512_add_pd(part[r], _mm512_maskz_loadu_pd(_mm512_cmplt_epi64_mask(at, n[r]), products + indptr[r] + k));
    }
    return NAME(fold)(NAME(fold)(part[0], part[1]), NAME(fold)(part[2], part[3]));
}

#define SUM_FOUR(i) NAME(sum_four)(indptr + (i), buffer - start)
/* Compute y[0..15] for sixteen rows with at most GROUP_NONZEROS nonzeros. */
ASP_INLINE void NAME(sixteen_rows)(const I *indptr, const I *indices, const double *data, const double *x, double *y,
                                   int add, int fetch)
{
    const __m512i lane = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    const __m512i length = LENGTHS(indptr);
    double buffer[GROUP_NONZEROS + 16] __attribute__((aligned(64)));
    const int64_t start = indptr[0];
    __m512d low, high;
#if !GATHERS
    const __mmask16 used = _mm512_test_epi32_mask(length, length);
    if (indptr[16] - start == __builtin_popcount(used)) {
        low = NAME(singles)((__mmask8)used, start, indices, data, x);
        high = NAME(singles)((__mmask8)(used >> 8), indptr[8], indices, data, x);
        _mm512_storeu_pd(y, add ? _mm512_add_pd(_mm512_loadu_pd(y), low) : low);
        _mm512_storeu_pd(y + 8, add ? _mm512_add_pd(_mm512_loadu_pd(y + 8), high) : high);
        return;
    }
#endif
    const __mmask16 deviating = _mm512_cmpneq_epi32_mask(length, _mm512_set1_epi32((int)(indptr[1] - start)));
    const int n_deviating = __builtin_popcount(deviating);
    if (n_deviating <= NAME(DEVIATING) && indptr[1] - start > 2) {
        NAME(fetch_group)(start, indptr[16], indices, data, fetch);
        if (n_deviating) NAME(alike_rows)(indptr, indices, data, x, y, add);
        else NAME(equal_rows)(indptr, indices, data, x, y, add, 0, ROW_GROUP);
        return;
    }
    NAME(products)(buffer, indptr[0], indptr[16], indices, data, x, fetch);
    if (!_mm512_cmpgt_epi32_mask(length, _mm512_set1_epi32(2))) {
        low = NAME(fold_quarters)(SPREAD(1, 0), SPREAD(1, 4));
        high = NAME(fold_quarters)(SPREAD(1, 8), SPREAD(1, 12));
    } else if (!_mm512_cmpgt_epi32_mask(length, _mm512_set1_epi32(4))) {
        low = NAME(fold_quarters)(NAME(fold)(SPREAD(2, 0), SPREAD(2, 2)), NAME(fold)(SPREAD(2, 4), SPREAD(2, 6)));
        high = NAME(fold_quarters)(NAME(fold)(SPREAD(2, 8), SPREAD(2, 10)), NAME(fold)(SPREAD(2, 12), SPREAD(2, 14)));
    } else {
        low = NAME(fold_quarters)(SUM_FOUR(0), SUM_FOUR(4));
        high = NAME(fold_quarters)(SUM_FOUR(8), SUM_FOUR(12));
    }
    _mm512_storeu_pd(y, add ? _mm512_add_pd(_mm512_loadu_pd(y), low) : low);
    _mm512_storeu_pd(y + 8, add ? _mm512_add_pd(_mm512_loadu_pd(y + 8), high) : high);
}

#undef SUM_FOUR
