/* aarch64 with Advanced SIMD, which every such processor has: 16-byte vectors in 32 registers; a mask is the number of
 * leading lanes in use. isa.h describes the names. Included with a real type R, it defines the vector operations that
 * vec_base.h describes. */
#ifndef RBYTES
#define ISA neon
#define VBYTES 16
#define VEC_HEADER "isa_neon.h"

#define SPMV_HEADER "spmv_base.h"
#define SPMV_PLAIN spmv
#define REST_CASES CASES_3 /* fewer reals than a vector holds */
#define TILE_MAX_REAL 16
#define TILE_CASES_REAL CASES_16
#define IDENTICAL_REGISTERS 32
#define TILE_MAX_COMPLEX 8
#define TILE_CASES_COMPLEX CASES_8
#define BLOCK_CASES_1 CASES_9 /* vectors of a tile for blocks of 1, 4, 8 rows */
#define BLOCK_CASES_4 CASES_6
#define BLOCK_CASES_8 CASES_3
#define BLOCK_MAX 9
#define RESIDENT_MAX 8

#else /* vector operations on R */
#include "vec_undef.h"

#define VL (16 / RBYTES)
#define VM int
#define VJ int
#define VB(x) ASP_GLUE(asp, neon, RTAG, x)
#define v_can_join(lanes) ((lanes) == VL / 2)
#define v_joint(lanes) (lanes)
#define v_mask(n) (n)
#define v_loadm VB(loadm)
#define v_storem VB(storem)

#if RBYTES == 4
#define V float32x4_t
#define v_zero() vdupq_n_f32(0)
#define v_set1(x) vdupq_n_f32(x)
#define v_load(p) vld1q_f32(p)
#define v_store(p, v) vst1q_f32(p, v)
#define v_fma(a, b, c) vfmaq_f32(c, a, b)
#define v_join(a, joint, b) ((void)(joint), vextq_f32(a, b, 2))
#else
#define V float64x2_t
#define v_zero() vdupq_n_f64(0)
#define v_set1(x) vdupq_n_f64(x)
#define v_load(p) vld1q_f64(p)
#define v_store(p, v) vst1q_f64(p, v)
#define v_fma(a, b, c) vfmaq_f64(c, a, b)
#define v_join(a, joint, b) ((void)(joint), vextq_f64(a, b, 1))
#endif

#ifdef __clang__
#define v_stream(p, v) __builtin_nontemporal_store(v, (V *)(p))
#else
#define v_stream v_store
#endif

#if (RBYTES == 4 && !defined(ASP_NEON_F32)) || (RBYTES == 8 && !defined(ASP_NEON_F64))
#if RBYTES == 4
#define ASP_NEON_F32
#else
#define ASP_NEON_F64
#endif
ASP_INLINE V VB(loadm)(const R *p, int n)
{
    V v = v_zero();
    v[0] = p[0];
    if (n > 1) v[1] = p[1];
#if RBYTES == 4
    if (n > 2) v[2] = p[2];
    if (n > 3) v[3] = p[3];
#endif
    return v;
}
ASP_INLINE void VB(storem)(R *p, int n, V v)
{
    p[0] = v[0];
    if (n > 1) p[1] = v[1];
#if RBYTES == 4
    if (n > 2) p[2] = v[2];
    if (n > 3) p[3] = v[3];
#endif
}
#endif
#endif
