/* Products with 2 to 7 columns for x86-64 with AVX-512: masks of 16- and 32-byte vectors, and gathered rows. */
#include "narrow.h"

#include "matmul_api.h"

#if ASP_X86
#include <immintrin.h>

#include "target_avx512.h"

/* Maximum number of entries of a row whose end is gathered, except for two columns of float32. For longer rows the
 * mispredicted branch is cheaper (cage10 with 13 entries per row: 0.8 times the speed with gathers). */
enum { GATHERED_ENTRIES = 11 };

/* Return elements of 8 bytes at offsets `at` from B, in units of `scale` bytes; 0 where the mask is unset. */
ASP_INLINE __m512d asp_rows_of(const int gathers, __mmask8 mask, __m256i at, const void *B, const int scale)
{
    if (gathers && scale == 4) return _mm512_mask_i32gather_pd(_mm512_setzero_pd(), mask, at, B, 4);
    if (gathers) return _mm512_mask_i32gather_pd(_mm512_setzero_pd(), mask, at, B, 8);
    if (!mask) return _mm512_setzero_pd(); /* B may be empty */
    int32_t to[8] __attribute__((aligned(32)));
    double found[8];
    _mm256_store_si256((__m256i *)to, _mm256_maskz_mov_epi32(mask, at));
    ASP_UNROLL for (int l = 0; l < 8; l++) memcpy(found + l, (const char *)B + (int64_t)to[l] * scale, sizeof *found);
    return _mm512_maskz_loadu_pd(mask, found);
}

#define ISA asp_avx512
#define HAS_LANE_MASKS
#define HAS_GATHERS
#include "narrow_all.h"

const asp_kernel asp_narrow_avx512[2][2][MAX_NARROW - 1] = NARROW_TABLE;

#include "target_end.h"
#endif
