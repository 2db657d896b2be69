/* y[i] = A[i] x with 64-byte vectors and gathers or one load per element (register_gather.h).
 *
 * Short rows are dominated by the branch misprediction at each row's end. So sixteen rows are computed together: the
 * products of all their nonzeros go to a buffer, then each row's part is loaded under a mask and sixteen sums are
 * reduced at once. The length of the longest row decides how many rows share a vector.
 */
#include "spmv_base.h" /* spmv_plain: for more columns than a 32-bit gather reaches */

/* Load column indices as 32-bit lanes: all, under a mask, or expanded to the lanes of a mask (widest type only).
 * LENGTHS computes the lengths of sixteen rows. */
#if IBYTES == 4
#define INDEX8(p) _mm256_loadu_si256((const __m256i *)(p))
#define INDEX8_MASKED(m, p) _mm256_maskz_loadu_epi32(m, p)
#define INDEX16_SPREAD(m, p) _mm512_maskz_expandloadu_epi32(m, p)
#define LENGTHS(p) _mm512_sub_epi32(_mm512_loadu_si512((p) + 1), _mm512_loadu_si512(p))
#else
#define INDEX8(p) _mm512_cvtepi64_epi32(_mm512_loadu_si512(p))
#define INDEX8_MASKED(m, p) _mm512_cvtepi64_epi32(_mm512_maskz_loadu_epi64(m, p))
#define INDEX16_SPREAD(m, p)                                                                                     \
    _mm512_inserti64x4(                                                                                          \
        _mm512_castsi256_si512(_mm512_cvtepi64_epi32(_mm512_maskz_expandloadu_epi64((__mmask8)(m), p))),         \
        _mm512_cvtepi64_epi32(_mm512_maskz_expandloadu_epi64((__mmask8)((m) >> 8),                               \
                                                             (p) + __builtin_popcount((m) & 0xff))),             \
        1)
#define LENGTHS(p)                                                                                               \
    _mm512_inserti64x4(_mm512_castsi256_si512(_mm512_cvtepi64_epi32(                                             \
                           _mm512_sub_epi64(_mm512_loadu_si512((p) + 1), _mm512_loadu_si512(p)))),               \
                       _mm512_cvtepi64_epi32(                                                                    \
                           _mm512_sub_epi64(_mm512_loadu_si512((p) + 9), _mm512_loadu_si512((p) + 8))),          \
                       1)
#endif

/* V8 holds eight values, ROW fills a register; O8(op) and O(op) are the instructions for them. X8 loads the elements
 * of x for eight nonzeros, X8_MASKED for fewer under a mask; total8 returns the sum of eight values. */
#if RBYTES == 4
#define V8 __m256
#define ROW __m512
#define MASK __mmask16
#define O8(op) _mm256_##op##_ps
#define O(op) _mm512_##op##_ps
#define QUARTERS _mm512_shuffle_f32x4
#if GATHERS
#define X8(k) _mm256_i32gather_ps(x, INDEX8(indices + (k)), 4)
#define X8_MASKED(m, k) _mm256_mmask_i32gather_ps(_mm256_setzero_ps(), m, INDEX8_MASKED(m, indices + (k)), x, 4)
#else
#define X8(k) LOOKUP(indices + (k), x)
#define LOOKED_UP8(at) asp_lookup_f32_i32(at, x)
#endif
ASP_INLINE float NAME(total8)(__m256 a)
{
    __m128 s = _mm_add_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
    s = _mm_add_ps(s, _mm_movehl_ps(s, s));
    return _mm_cvtss_f32(_mm_add_ss(s, _mm_movehdup_ps(s)));
}
#else
#define V8 __m512d
#define ROW __m512d
#define MASK __mmask8
#define O8(op) _mm512_##op##_pd
#define O(op) _mm512_##op##_pd
#define QUARTERS _mm512_shuffle_f64x2
#if GATHERS
#define X8(k) _mm512_i32gather_pd(INDEX8(indices + (k)), x, 8)
#define X8_MASKED(m, k) _mm512_mask_i32gather_pd(_mm512_setzero_pd(), m, INDEX8_MASKED(m, indices + (k)), x, 8)
#else
#define JOIN(low, high) _mm512_insertf64x4(_mm512_castpd256_pd512(low), high, 1)
#define X8(k) JOIN(LOOKUP(indices + (k), x), LOOKUP(indices + (k) + 4, x))
#define LOOKED_UP8(at) JOIN(asp_lookup_f64_i32(at, x), asp_lookup_f64_i32((at) + 4, x))
#endif
ASP_INLINE double NAME(total8)(__m512d a) { return _mm512_reduce_add_pd(a); }
#endif

enum { NAME(WIDTH) = 64 / RBYTES }; /* values in a ROW */

#if !GATHERS
#define X8_MASKED(m, k) NAME(lookup_first)(m, INDEX8_MASKED(m, indices + (k)), x)
ASP_TILE V8 NAME(lookup_first)(__mmask8 m, __m256i at, const R *x)
{
    int32_t places[8] __attribute__((aligned(32)));
    if (!m) return O8(setzero)(); /* x may be empty */
    _mm256_store_si256((__m256i *)places, at);
    return O8(maskz_mov)(m, LOOKED_UP8(places));
}
#endif
#define PRODUCT8(k) O8(mul)(O8(loadu)(data + (k)), X8(k))
#define PRODUCT8_MASKED(m, k) O8(mul)(O8(maskz_loadu)(m, data + (k)), X8_MASKED(m, k))

/* Return 128-bit quarters [a0 + a1, a2 + a3, b0 + b1, b2 + b3]. */
ASP_INLINE ROW NAME(fold)(ROW a, ROW b) { return O(add)(QUARTERS(a, b, 0x88), QUARTERS(a, b, 0xdd)); }

/* Return the dot product of the nonzeros [k, stop) with x. */
ASP_INLINE R NAME(one_row)(int64_t k, int64_t stop, const I *indices, const R *data, const R *x, int fetch)
{
    V8 a = O8(setzero)(), b = a;
    for (; k + 16 <= stop; k += 16) {
        FETCH_AHEAD(indices + k, 16);
        FETCH_AHEAD(data + k, 16);
        a = O8(fmadd)(O8(loadu)(data + k), X8(k), a);
        b = O8(fmadd)(O8(loadu)(data + k + 8), X8(k + 8), b);
    }
    FETCH_AHEAD(indices + k, 16);
    FETCH_AHEAD(data + k, 16);
    if (k + 8 <= stop) {
        a = O8(add)(a, PRODUCT8(k));
        k += 8;
    }
    const __mmask8 rest = (__mmask8)((1u << (stop - k)) - 1);
    b = O8(add)(b, PRODUCT8_MASKED(rest, k));
    return NAME(total8)(O8(add)(a, b));
}

/* Store the products of nonzeros [start, stop) to buffer; up to 7 more values are written. */
ASP_INLINE void NAME(products)(R *buffer, int64_t start, int64_t stop, const I *indices, const R *data, const R *x,
                               int fetch)
{
    int64_t k = start;
    for (; fetch && k + 16 <= stop; k += 16, buffer += 16) { /* one cache line of indices at a time */
        FETCH_AHEAD(indices + k, 16);
        FETCH_AHEAD(data + k, 16);
        O8(store)(buffer, PRODUCT8(k));
        O8(store)(buffer + 8, PRODUCT8(k + 8));
    }
    if (fetch && k < stop) {
        FETCH_AHEAD(indices + k, 16);
        FETCH_AHEAD(data + k, 16);
    }
    for (; k + 8 <= stop; k += 8, buffer += 8) O8(store)(buffer, PRODUCT8(k));
    const __mmask8 rest = (__mmask8)((1u << (stop - k)) - 1);
    O8(store)(buffer, PRODUCT8_MASKED(rest, k));
}

/* Mask of the lanes in use when every 2^shift lanes hold one row, beginning with row `first`. */
#define LANES(shift, first)                                                                                      \
    ((MASK)_mm512_cmplt_epi32_mask(                                                                              \
        _mm512_and_epi32(lane, _mm512_set1_epi32((1 << (shift)) - 1)),                                           \
        _mm512_permutexvar_epi32(_mm512_add_epi32(_mm512_srli_epi32(lane, shift), _mm512_set1_epi32(first)), length)))
#define SPREAD(shift, first) O(maskz_expand)(LANES(shift, first), O(loadu)(buffer + (indptr[first] - start)))

/* Return partial sums of products[k..stop) in the lanes of a register. */
ASP_TILE ROW NAME(any_row)(const R *products, int64_t k, int64_t stop)
{
    const int64_t width = NAME(WIDTH);
    if (stop - k <= width) return O(maskz_loadu)((MASK)((1u << (stop - k)) - 1), products + k);
    ROW sum = O(loadu)(products + k);
    for (k += width; k + width <= stop; k += width) sum = O(add)(sum, O(loadu)(products + k));
    const MASK rest = (MASK)((1u << (stop - k)) - 1);
    return O(add)(sum, O(maskz_loadu)(rest, products + k));
}
#define ANY_ROW(i) NAME(any_row)(buffer, indptr[i] - start, indptr[(i) + 1] - start)
#define ANY_ROWS(i) NAME(fold)(NAME(fold)(ANY_ROW(i), ANY_ROW((i) + 1)), NAME(fold)(ANY_ROW((i) + 2), ANY_ROW((i) + 3)))

/* Whether the sixteen rows at p have n nonzeros each, and the maximum of n for which scalar sums are faster. */
#define ARE_EQUAL(p, n) (!_mm512_cmpneq_epi32_mask(LENGTHS(p), _mm512_set1_epi32((int)(n))))
#define EQUAL_MAX (RBYTES == 8 ? GROUP_NONZEROS / ROW_GROUP : 6)

#if RBYTES == 4
#include "spmv_masked64_f32.h"
#else
#include "spmv_masked64_f64.h"
#endif

#include "spmv_groups.h"

#undef INDEX8
#undef INDEX8_MASKED
#undef INDEX16_SPREAD
#undef LENGTHS
#undef ARE_EQUAL
#undef EQUAL_MAX
#undef V8
#undef ROW
#undef MASK
#undef O8
#undef O
#undef QUARTERS
#undef X8
#undef X8_MASKED
#undef JOIN
#undef LOOKED_UP8
#undef PRODUCT8
#undef PRODUCT8_MASKED
#undef LANES
#undef SPREAD
#undef ANY_ROW
#undef ANY_ROWS
