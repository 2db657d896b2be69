/* Vector operations on R with AVX2: 32-byte vectors; a mask is a vector of sign bits. vec_base.h describes the
 * operations. */
#include "vec_undef.h"

#define VL (32 / RBYTES)
#define VM __m256i
#define VJ int
#define v_can_join(lanes) ((lanes) == VL / 2)
#define v_joint(lanes) (lanes)
#define v_mask(n) _mm256_loadu_si256((const __m256i *)(asp_lane_masks + 8 - (n) * (RBYTES / 4)))

#if RBYTES == 4
#define V __m256
#define v_zero() _mm256_setzero_ps()
#define v_set1(x) _mm256_set1_ps(x)
#define v_load(p) _mm256_loadu_ps(p)
#define v_store(p, v) _mm256_storeu_ps(p, v)
#define v_stream(p, v) _mm256_stream_ps(p, v)
#define v_fma(a, b, c) _mm256_fmadd_ps(a, b, c)
#define v_loadm(p, m) _mm256_maskload_ps(p, m)
#define v_storem(p, m, v) _mm256_maskstore_ps(p, m, v)
#define v_join(a, joint, b) ((void)(joint), _mm256_permute2f128_ps(a, b, 0x21))
#else
#define V __m256d
#define v_zero() _mm256_setzero_pd()
#define v_set1(x) _mm256_set1_pd(x)
#define v_load(p) _mm256_loadu_pd(p)
#define v_store(p, v) _mm256_storeu_pd(p, v)
#define v_stream(p, v) _mm256_stream_pd(p, v)
#define v_fma(a, b, c) _mm256_fmadd_pd(a, b, c)
#define v_loadm(p, m) _mm256_maskload_pd(p, m)
#define v_storem(p, m, v) _mm256_maskstore_pd(p, m, v)
#define v_join(a, joint, b) ((void)(joint), _mm256_permute2f128_pd(a, b, 0x21))
#endif
