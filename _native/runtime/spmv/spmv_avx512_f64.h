/* float64: sums of sixteen rows, and of one long row. */

/* Elements of x of eight nonzeros, and of fewer than that under a mask; products of both. */
#if GATHERS
#define X8(k) _mm512_i32gather_pd(INDEX8(indices + (k)), x, 8)
#define X8_MASKED(m, k) _mm512_mask_i32gather_pd(_mm512_setzero_pd(), m, INDEX8_MASKED(m, indices + (k)), x, 8)
#else
#define JOIN(low, high) _mm512_insertf64x4(_mm512_castpd256_pd512(low), high, 1)
#define X8(k) JOIN(LOOKUP(indices + (k), x), LOOKUP(indices + (k) + 4, x))
#define X8_MASKED(m, k) NAME(lookup_first)(m, INDEX8_MASKED(m, indices + (k)), x)
ASP_INLINE __m512d NAME(lookup_first)(__mmask8 m, __m256i at, const double *x)
{
    int32_t places[8] __attribute__((aligned(32)));
    if (!m) return _mm512_setzero_pd(); /* x may be empty */
    _mm256_store_si256((__m256i *)places, at);
    return _mm512_maskz_mov_pd(m, JOIN(asp_lookup_f64_i32(places, x), asp_lookup_f64_i32(places + 4, x)));
}
#endif
#define PRODUCT8(k) _mm512_mul_pd(_mm512_loadu_pd(data + (k)), X8(k))
#define PRODUCT8_MASKED(m, k) _mm512_mul_pd(_mm512_maskz_loadu_pd(m, data + (k)), X8_MASKED(m, k))

/* Quarters (128 bits) [a0 + a1, a2 + a3, b0 + b1, b2 + b3]. */
ASP_INLINE __m512d NAME(fold)(__m512d a, __m512d b)
{
    return _mm512_add_pd(_mm512_shuffle_f64x2(a, b, 0x88), _mm512_shuffle_f64x2(a, b, 0xdd));
}

/* The sum of each quarter: those of a, then those of b. */
ASP_INLINE __m512d NAME(fold_quarters)(__m512d a, __m512d b)
{
    const __m512d sums = _mm512_add_pd(_mm512_unpacklo_pd(a, b), _mm512_unpackhi_pd(a, b));
    return _mm512_permutexvar_pd(_mm512_setr_epi64(0, 2, 4, 6, 1, 3, 5, 7), sums);
}

ASP_INLINE double NAME(one_row)(int64_t k, int64_t stop, const I *indices, const double *data, const double *x,
                               int fetch)
{
    __m512d a = _mm512_setzero_pd(), b = a;
    for (; k + 16 <= stop; k += 16) {
        FETCH_AHEAD(indices + k);
        FETCH_AHEAD(data + k);
        FETCH_AHEAD(data + k + 8);
        a = _mm512_fmadd_pd(_mm512_loadu_pd(data + k), X8(k), a);
        b = _mm512_fmadd_pd(_mm512_loadu_pd(data + k + 8), X8(k + 8), b);
    }
    if (k + 8 <= stop) {
        FETCH_AHEAD(indices + k);
        FETCH_AHEAD(data + k);
        a = _mm512_add_pd(a, PRODUCT8(k));
        k += 8;
    }
    FETCH_AHEAD(indices + k);
    FETCH_AHEAD(data + k);
    const __mmask8 rest = (__mmask8)((1u << (stop - k)) - 1);
    b = _mm512_add_pd(b, PRODUCT8_MASKED(rest, k));
    return _mm512_reduce_add_pd(_mm512_add_pd(a, b));
}

/* Products of nonzeros [start, stop) to buffer; up to 7 doubles more are written. */
ASP_INLINE void NAME(products)(double *buffer, int64_t start, int64_t stop, const I *indices, const double *data,
                               const double *x, int fetch)
{
    int64_t k = start;
    for (; k + 8 <= stop; k += 8, buffer += 8) {
        FETCH_AHEAD(indices + k);
        FETCH_AHEAD(data + k);
        _mm512_store_pd(buffer, PRODUCT8(k));
    }
    const __mmask8 rest = (__mmask8)((1u << (stop - k)) - 1);
    _mm512_store_pd(buffer, PRODUCT8_MASKED(rest, k));
}

/* Rows from `first` on, 2^shift lanes to a row. */
#define LANES(shift, first)                                                                                      \
    ((__mmask8)_mm512_cmplt_epi32_mask(                                                                          \
        _mm512_and_epi32(lane, _mm512_set1_epi32((1 << (shift)) - 1)),                                           \
        _mm512_permutexvar_epi32(_mm512_add_epi32(_mm512_srli_epi32(lane, shift), _mm512_set1_epi32(first)), length)))
#define SPREAD(shift, first) _mm512_maskz_expand_pd(LANES(shift, first), _mm512_loadu_pd(buffer + (indptr[first] - start)))

ASP_INLINE __m512d NAME(any_row)(const double *products, int64_t k, int64_t stop)
{
    if (stop - k <= 8) return _mm512_maskz_loadu_pd((__mmask8)((1u << (stop - k)) - 1), products + k);
    __m512d sum = _mm512_loadu_pd(products + k);
    for (k += 8; k + 8 <= stop; k += 8) sum = _mm512_add_pd(sum, _mm512_loadu_pd(products + k));
    const __mmask8 rest = (__mmask8)((1u << (stop - k)) - 1);
    return _mm512_add_pd(sum, _mm512_maskz_loadu_pd(rest, products + k));
}
#if !GATHERS
/* Rows of at most one nonzero, as `used` says: their products, the first at k. Adding zero is what makes -0 a sum. */
ASP_INLINE __m512d NAME(singles)(__mmask8 used, int64_t k, const I *indices, const double *data, const double *x)
{
    const __m512d few = used == 0xff ? PRODUCT8(k) : PRODUCT8_MASKED((__mmask8)((1u << __builtin_popcount(used)) - 1), k);
    return _mm512_add_pd(_mm512_maskz_expand_pd(used, few), _mm512_setzero_pd());
}
#endif

#define ANY_ROW(i) NAME(any_row)(buffer, indptr[i] - start, indptr[(i) + 1] - start)
#define ANY_ROWS(i) NAME(fold)(NAME(fold)(ANY_ROW(i), ANY_ROW((i) + 1)), NAME(fold)(ANY_ROW((i) + 2), ANY_ROW((i) + 3)))

/* Sixteen rows of n nonzeros each, as stencils have them: their ends are predicted, and nothing passes through memory. */
ASP_INLINE void NAME(equal_rows)(int64_t n, const I *indices, const double *data, const double *x, double *y, int add,
                               int fetch)
{
    for (int row = 0; row < ROW_GROUP; row += 4, indices += 4 * n, data += 4 * n) {
        double a = 0, b = 0, c = 0, d = 0;
        for (int64_t k = 0; k < n; k++) {
            FETCH_AHEAD(indices + 4 * k);
            FETCH_AHEAD(data + 4 * k);
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

#undef X8
#undef X8_MASKED
#undef JOIN
#undef PRODUCT8
#undef PRODUCT8_MASKED
#undef LANES
#undef SPREAD
#undef ANY_ROW
#undef ANY_ROWS
