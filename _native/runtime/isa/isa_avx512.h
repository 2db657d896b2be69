/* x86-64 with AVX-512 F, VL, DQ and BW: 64-byte vectors; a mask has one bit per lane. isa.h describes the names.
 * Included with a real type R, it defines the vector operations that vec_base.h describes. */
#ifndef RBYTES
#define ISA avx512
#define VBYTES 64
#define VEC_HEADER "isa_avx512.h"
#define ISA_HAS_TARGET

#define ISA_BY_LOADS avx512_by_loads
#define SPMV_HEADER "spmv_masked64.h"
#define SPMV_PLAIN spmv_plain
#define REST_CASES CASES_15 /* fewer reals than a vector holds */
#define TILE_MAX_REAL 16
#define TILE_CASES_REAL CASES_16
#define SHIFT_MIN 3 /* minimum number of vectors of a shifted tile */
#define SHIFT_CASES SHIFTS_17
#define IDENTICAL_REGISTERS 32
#define TILE_MAX_COMPLEX 8
#define TILE_CASES_COMPLEX CASES_8
#define BLOCK_CASES_1 CASES_9 /* vectors of a tile for blocks of 1, 4, 8 rows */
#define BLOCK_CASES_4 CASES_6
#define BLOCK_CASES_8 CASES_3
#define BLOCK_MAX 9
#define RESIDENT_MAX 4 /* vectors of a tile: with more, fewer rows of B stay in the cache */

#ifdef __clang__
#pragma clang attribute push(__attribute__((target("avx512f,avx512vl,avx512dq,avx512bw,avx2,fma,bmi,bmi2,popcnt"))), apply_to = function)
#elif defined(ISA_WIDE_LOOPS) /* loops that the compiler vectorises use whole registers */
#pragma GCC push_options
#pragma GCC target("avx512f,avx512vl,avx512dq,avx512bw,avx2,fma,bmi,bmi2,popcnt,prefer-vector-width=512")
#else
#pragma GCC push_options
#pragma GCC target("avx512f,avx512vl,avx512dq,avx512bw,avx2,fma,bmi,bmi2,popcnt")
#endif

#else /* vector operations on R */
#include "vec_undef.h"

#define v_can_join(lanes) 1
#define V_SHIFTS

#define VL (64 / RBYTES)

#if RBYTES == 4
#define V __m512
#define VM __mmask16
#define v_zero() _mm512_setzero_ps()
#define v_set1(x) _mm512_set1_ps(x)
#define v_load(p) _mm512_loadu_ps(p)
#define v_store(p, v) _mm512_storeu_ps(p, v)
#define v_stream(p, v) _mm512_stream_ps(p, v)
#define v_fma(a, b, c) _mm512_fmadd_ps(a, b, c)
#define v_mask(n) ((__mmask16)((1u << (n)) - 1))
#define v_loadm(p, m) _mm512_maskz_loadu_ps(m, p)
#define v_storem(p, m, v) _mm512_mask_storeu_ps(p, m, v)
#define VJ __m512i
#define v_joint(lanes) \
    _mm512_add_epi32(_mm512_set_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0), _mm512_set1_epi32(VL - (lanes)))
#define v_join(a, joint, b) _mm512_permutex2var_ps(a, joint, b)
#define v_blend(m, a, b) _mm512_mask_blend_ps(m, a, b)
#else
#define V __m512d
#define VM __mmask8
#define v_zero() _mm512_setzero_pd()
#define v_set1(x) _mm512_set1_pd(x)
#define v_load(p) _mm512_loadu_pd(p)
#define v_store(p, v) _mm512_storeu_pd(p, v)
#define v_stream(p, v) _mm512_stream_pd(p, v)
#define v_fma(a, b, c) _mm512_fmadd_pd(a, b, c)
#define v_mask(n) ((__mmask8)((1u << (n)) - 1))
#define v_loadm(p, m) _mm512_maskz_loadu_pd(m, p)
#define v_storem(p, m, v) _mm512_mask_storeu_pd(p, m, v)
#define VJ __m512i
#define v_joint(lanes) \
    _mm512_add_epi64(_mm512_set_epi64(7, 6, 5, 4, 3, 2, 1, 0), _mm512_set1_epi64(VL - (lanes)))
#define v_join(a, joint, b) _mm512_permutex2var_pd(a, joint, b)
#define v_blend(m, a, b) _mm512_mask_blend_pd(m, a, b)
#endif
#endif
