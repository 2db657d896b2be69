/* y[i] = A[i] x with AVX-512 gathers, or a load for each element (lookups.h).
 *
 * What costs in short rows is not arithmetic but the mispredicted end of each row. So sixteen rows are taken together:
 * their products, one run of nonzeros whatever the rows, go to a buffer; then each row's part is loaded under a mask
 * and sixteen sums are folded in one go. The class of the longest row decides how many rows share a vector.
 */
#include "spmv_base.h" /* spmv_plain: for more columns than a 32-bit gather reaches */

/* Column indices as 32-bit lanes: VL of them, under a mask, or spread to the lanes of a mask (the widest type only). */
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

#if RBYTES == 4
#include "spmv_avx512_f32.h"
#else
#include "spmv_avx512_f64.h"
#endif

#include "spmv_groups.h"

#undef INDEX8
#undef INDEX8_MASKED
#undef INDEX16_SPREAD
#undef LENGTHS
