/* C[i] = A[i] x for complex numbers, with 64-byte vectors. Four entries are computed at a time, the last ones under a
 * mask: a loop over them would cost a branch misprediction per row. A kernel of this kind for two columns of float64 took
 * 0.8 to 1.2 times the time of tiles with a masked vector.
 *
 * The order of each sum depends on the length of the row alone. */
#include "kernels.h"

#include "matmul_api.h"

#if ASP_X86
#include ASP_INTRINSICS

#define ASP_ISA_LEVEL 2
#include "isa_begin.h"

enum { ENTRIES = 4 }; /* entries of a step */
/* Maximum entries of a row that are computed one by one. With 1, rows of an x in the L2 cache take 0.5 to 1.06 times as
 * long, but others up to 1.3 times. */
enum { SHORT = 3 };

/* Return the two floats at `a`, at any multiple of 4 bytes, in the low lanes. */
ASP_INLINE __m128 asp_of_8(const float *a)
{
    double both;
    memcpy(&both, a, sizeof both);
    return _mm_castpd_ps(_mm_set_sd(both));
}

/* Return the elements of 8 bytes at `a` and `b`. */
ASP_INLINE __m128 asp_two_of_8(const float *a, const float *b)
{
    return _mm_castpd_ps(_mm_loadh_pd(_mm_castps_pd(asp_of_8(a)), (const double *)b));
}

/* Return the sum of the quarters of `wide`. */
ASP_INLINE __m128d asp_quarters(__m512d wide)
{
    const __m256d half = _mm256_add_pd(_mm512_castpd512_pd256(wide), _mm512_extractf64x4_pd(wide, 1));
    return _mm_add_pd(_mm256_castpd256_pd128(half), _mm256_extractf128_pd(half, 1));
}

/* Return the sum of the pairs of floats of `wide`, in the two low lanes. */
ASP_INLINE __m128 asp_pairs(__m256 wide)
{
    const __m128 quarter = _mm_add_ps(_mm256_castps256_ps128(wide), _mm256_extractf128_ps(wide, 1));
    return _mm_add_ps(quarter, _mm_movehl_ps(quarter, quarter));
}

#define INDEX_BODY "complex_rows_body.h"
#include "index_types.h"

#include "isa_end.h"
#endif

asp_kernel asp_complex_kernel(int dtype, int itype, int64_t n_vecs)
{
#if ASP_X86
    if (asp_vector_bytes() < 64 || n_vecs != 1) return NULL;
    const int is_narrow = itype == ASP_I32;
    if (dtype == ASP_C128) return is_narrow ? complex128_i32 : complex128_i64;
    if (dtype == ASP_C64) return is_narrow ? complex64_i32 : complex64_i64;
#else
    (void)dtype, (void)itype, (void)n_vecs;
#endif
    return NULL;
}
