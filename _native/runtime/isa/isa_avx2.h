/* x86-64 with AVX2, FMA, BMI and POPCNT: 32-byte vectors; a mask is a vector of sign bits. isa.h describes the names.
 * Included with a real type R, it defines the vector operations that vec_base.h describes. */
#ifndef RBYTES
#define ISA avx2
#define VBYTES 32
#define VEC_HEADER "isa_avx2.h"
#define ISA_HAS_TARGET

#define ISA_BY_LOADS avx2_by_loads
#define SPMV_HEADER "spmv_masked32.h"
#define SPMV_PLAIN spmv_plain
#define REST_CASES CASES_7 /* fewer reals than a vector holds */
#define TILE_MAX_REAL 12
#define TILE_CASES_REAL CASES_12
#define IDENTICAL_REGISTERS 16
#define TILE_MAX_COMPLEX 6
#define TILE_CASES_COMPLEX CASES_6
#define BLOCK_CASES_1 CASES_4 /* vectors of a tile for blocks of 1, 4, 8 rows */
#define BLOCK_CASES_4 CASES_3
#define BLOCK_CASES_8 CASES_1
#define BLOCK_MAX 4
#define RESIDENT_MAX 8

#ifndef ASP_LANE_MASKS
#define ASP_LANE_MASKS
/* asp_lane_masks + 8 - n: a mask of n lanes of 4 bytes, followed by unset lanes. */
__attribute__((unused)) static const int32_t asp_lane_masks[16] = {-1, -1, -1, -1, -1, -1, -1, -1, 0, 0, 0, 0, 0, 0, 0, 0};
#endif

#ifdef __clang__
#pragma clang attribute push(__attribute__((target("avx2,fma,bmi,bmi2,popcnt"))), apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx2,fma,bmi,bmi2,popcnt")
#endif

#else /* vector operations on R */
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
#endif
