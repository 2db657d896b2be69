/* Vector operations on the real type R for any compiler with vector extensions: 16-byte vectors; a mask is the number
 * of leading lanes in use.
 *
 * Every header of an instruction set (isa.h) defines the same names. V: vector type, VL: lanes, VM: mask type, v_mask(n): mask of the first n
 * lanes. v_load, v_store: unaligned access; v_loadm, v_storem: only the lanes in the mask, others read as 0; v_stream:
 * aligned non-temporal store. v_fma(a, b, c) = a * b + c. v_join(a, v_joint(n), b): the last n lanes of a followed by
 * the first VL - n lanes of b, available where v_can_join(n). V_SHIFTS and v_blend (lanes of b where the mask is set,
 * else of a) exist with 64-byte vectors only.
 */
#include "vec_undef.h"

#define VL (16 / RBYTES)
#define V ASP_GLUE(asp, v, base, RTAG)
#define VM int
#define VB(x) ASP_GLUE(asp, base, RTAG, x)

#if (RBYTES == 4 && !defined(ASP_BASE_F32)) || (RBYTES == 8 && !defined(ASP_BASE_F64))
#if RBYTES == 4
#define ASP_BASE_F32
#else
#define ASP_BASE_F64
#endif
typedef R V __attribute__((vector_size(16)));

ASP_INLINE V VB(set1)(R x)
{
    V v;
    for (int lane = 0; lane < VL; lane++) v[lane] = x;
    return v;
}
ASP_INLINE V VB(load)(const R *p)
{
    V v;
    memcpy(&v, p, sizeof v);
    return v;
}
ASP_INLINE void VB(store)(R *p, V v) { memcpy(p, &v, sizeof v); }
ASP_INLINE V VB(loadm)(const R *p, int n)
{
    V v = VB(set1)(0);
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

#define v_zero() VB(set1)(0)
#define v_set1 VB(set1)
#define v_load VB(load)
#define v_store VB(store)
#define v_stream VB(store)
#define v_fma(a, b, c) ((a) * (b) + (c))
#define v_mask(n) (n)
#define v_loadm VB(loadm)
#define v_storem VB(storem)
#define VJ int
#define v_can_join(lanes) 0
#define v_joint(lanes) (lanes)
#define v_join(a, joint, b) ((void)(joint), (void)(a), (b))
