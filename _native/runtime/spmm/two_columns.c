/* C[i, :] = A[i] B for two columns of float32 with 64-byte vectors. A row of B has 8 bytes, so that eight entries are gathered
 * at a time, the last ones under a mask: a loop over them would cost a branch misprediction per row, which is half of
 * the time for short rows. Kernels of this kind for three to seven columns, for float64 and for narrower vectors were not faster
 * than tiles with a masked vector.
 *
 * The order of each sum depends on the length of the row alone. Results are the same, bit for bit, without gather
 * instructions. */
#include "kernels.h"

#include "matmul_api.h"

#if ASP_X86
#include ASP_INTRINSICS

#define ASP_ISA_LEVEL 2
#include "isa_begin.h"

enum { ENTRIES = 8, RUN = 64 }; /* entries of a gather; rows that are tested at once for one entry each */

/* Return the elements of 8 bytes at offsets `a` and `b` from B, in units of 4 bytes. */
ASP_INLINE __m128d asp_two_rows_of(const float *B, int32_t a, int32_t b)
{
    double first; /* at any multiple of 4 bytes */
    memcpy(&first, B + a, sizeof first);
    return _mm_loadh_pd(_mm_set_sd(first), (const double *)(B + b));
}

/* Return elements of 8 bytes at offsets `at` from B, in units of 4 bytes; 0 where the mask is unset.
 *
 * Without gathers, loads fill registers: a vector that was stored in parts is loaded again only after a delay. */
ASP_INLINE __m512d asp_rows_of(const int gathers, __mmask8 mask, __m256i at, const void *B)
{
    if (gathers) return _mm512_mask_i32gather_pd(_mm512_setzero_pd(), mask, at, B, 4);
    if (!mask) return _mm512_setzero_pd(); /* B may be empty */
    int32_t to[ENTRIES] __attribute__((aligned(32)));
    _mm256_store_si256((__m256i *)to, _mm256_maskz_mov_epi32(mask, at)); /* 0 is the offset of a row of B */
    const __m256d low = _mm256_insertf128_pd(_mm256_castpd128_pd256(asp_two_rows_of(B, to[0], to[1])),
                                             asp_two_rows_of(B, to[2], to[3]), 1);
    if (!(mask >> 4)) return _mm512_maskz_mov_pd(mask, _mm512_zextpd256_pd512(low));
    const __m256d high = _mm256_insertf128_pd(_mm256_castpd128_pd256(asp_two_rows_of(B, to[4], to[5])),
                                              asp_two_rows_of(B, to[6], to[7]), 1);
    return _mm512_maskz_mov_pd(mask, _mm512_insertf64x4(_mm512_castpd256_pd512(low), high, 1));
}

#define I int32_t
#define ITAG i32
#define INDICES(m, p) _mm256_maskz_loadu_epi32(m, p)
#include "two_columns_body.h"
#undef I
#undef ITAG
#undef INDICES
#define I int64_t
#define ITAG i64
#define INDICES(m, p) _mm512_cvtepi64_epi32(_mm512_maskz_loadu_epi64(m, p))
#include "two_columns_body.h"

#include "isa_end.h"
#endif

asp_kernel asp_narrow_kernel(int dtype, int itype, int64_t n_vecs)
{
#if ASP_X86
    if (asp_vector_bytes() >= 64 && dtype == ASP_F32 && n_vecs == 2)
        return itype == ASP_I32 ? two_columns_i32 : two_columns_i64;
#endif
    return asp_complex_kernel(dtype, itype, n_vecs);
}
