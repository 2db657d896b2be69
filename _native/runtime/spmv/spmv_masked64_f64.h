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

/* Compute sixteen rows of n nonzeros each, as in stencils: the row ends are predicted, and no products pass through
 * memory. */
ASP_INLINE void NAME(equal_rows)(int64_t n, const I *indices, const double *data, const double *x, double *y, int add,
                               int fetch)
{
    for (int row = 0; row < ROW_GROUP; row += 4, indices += 4 * n, data += 4 * n) {
        double a = 0, b = 0, c = 0, d = 0;
        if (fetch) /* once per sixteen entries of the group, counted from its begin */
            for (int64_t k = -row * n & 15; k < 4 * n; k += 16) {
                FETCH_AHEAD(indices + k, 16);
                FETCH_AHEAD(data + k, 16);
            }
        for (int64_t k = 0; k < n; k++) {
            a += data[k] * x[indices[k]];
            b += data[n + k] * x[indices[n + k]];
            c += data[2 * n + k] * x[indices[2 * n + k]];
            d += data[3 * n + k] * x[indices[3 * n + k]];
        }
        y[row] = add ? y[row] + a : a;
        y[row + 1] = add ? y[row + 1] + b : b;
        y[row + 2] = add ? y[row + 2] + c : c;
        y[row + 3] = add ? y[row + 3] + d : d;
    }
}

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
    const int64_t n_first = indptr[1] - start;
    if (n_first > 2 && _mm512_cmpeq_epi32_mask(length, _mm512_set1_epi32((int)n_first)) == 0xffff) {
        NAME(equal_rows)(n_first, indices + start, data + start, x, y, add, fetch);
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
        low = NAME(fold_quarters)(ANY_ROWS(0), ANY_ROWS(4));
        high = NAME(fold_quarters)(ANY_ROWS(8), ANY_ROWS(12));
    }
    _mm512_storeu_pd(y, add ? _mm512_add_pd(_mm512_loadu_pd(y), low) : low);
    _mm512_storeu_pd(y + 8, add ? _mm512_add_pd(_mm512_loadu_pd(y + 8), high) : high);
}
