/* Row kernels of the sparse product for each value and index type. They are compiled for the baseline instruction set
 * on purpose: without fused multiply-add the sums equal SciPy's to the last bit. */
#include "spgemm.h"

typedef struct {
    float re, im;
} sg_c64;
typedef struct {
    double re, im;
} sg_c128;

#define SG_REAL(s, a, b) ((s) + (a) * (b))
#define SG_LOGICAL(s, a, b) ((s) | (((a) != 0) & ((b) != 0)))
/* Sums and products of unsigned integers have the bits of signed ones; 1u keeps narrow types from promotion to int. */
#define SG_INTEGER(s, a, b) ((SG_T)((s) + 1u * (a) * (b)))
#define SG_NONZERO_REAL(s) ((s) != 0)
#define SG_NONZERO_COMPLEX(s) (((s).re != 0) | ((s).im != 0))

ASP_INLINE sg_c64 sg_muladd_c64(sg_c64 s, sg_c64 a, sg_c64 b)
{
    return (sg_c64){s.re + (a.re * b.re - a.im * b.im), s.im + (a.re * b.im + a.im * b.re)};
}
ASP_INLINE sg_c128 sg_muladd_c128(sg_c128 s, sg_c128 a, sg_c128 b)
{
    return (sg_c128){s.re + (a.re * b.re - a.im * b.im), s.im + (a.re * b.im + a.im * b.re)};
}

#define SG_ZERO 0
#define SG_MULADD SG_REAL
#define SG_NONZERO SG_NONZERO_REAL
#define SG_T float
#define SG_D f32
#include "spgemm_each.h"
#define SG_T double
#define SG_D f64
#include "spgemm_each.h"
#undef SG_MULADD
#define SG_MULADD SG_LOGICAL
#define SG_T uint8_t
#define SG_D bool
#include "spgemm_each.h"
#undef SG_MULADD
#define SG_MULADD SG_INTEGER
#define SG_T uint8_t
#define SG_D u8
#include "spgemm_each.h"
#define SG_T uint16_t
#define SG_D u16
#include "spgemm_each.h"
#define SG_T uint32_t
#define SG_D u32
#include "spgemm_each.h"
#define SG_T uint64_t
#define SG_D u64
#include "spgemm_each.h"
#undef SG_ZERO
#undef SG_MULADD
#undef SG_NONZERO

#define SG_ZERO {0, 0}
#define SG_NONZERO SG_NONZERO_COMPLEX
#define SG_MULADD sg_muladd_c64
#define SG_T sg_c64
#define SG_D c64
#include "spgemm_each.h"
#undef SG_MULADD
#define SG_MULADD sg_muladd_c128
#define SG_T sg_c128
#define SG_D c128
#include "spgemm_each.h"

#define SG_KIND(N, T) {sg_rows_##N, sizeof(T), sizeof(sg_cell_##N), sizeof(sg_slot_##N)}
#define SG_KINDS(D, T) {SG_KIND(D##_i32, T), SG_KIND(D##_i64, T)}
const sg_kind sg_kinds[SG_N_DTYPES][2] = {SG_KINDS(f32, float),     SG_KINDS(f64, double),    SG_KINDS(c64, sg_c64),
                                          SG_KINDS(c128, sg_c128),  SG_KINDS(bool, uint8_t),  SG_KINDS(u8, uint8_t),
                                          SG_KINDS(u16, uint16_t),  SG_KINDS(u32, uint32_t),  SG_KINDS(u64, uint64_t)};
