/* Instruction sets of this processor's family, as levels 0, 1, ... in ascending order of preference. Included by common.h.
 *
 * An instruction set is one row here, one row in autosparse/core/isa.py and one header isa_<name>.h, which isa_begin.h
 * includes. The header defines
 *   ISA           its name
 *   VBYTES        bytes of a vector
 *   VEC_HEADER    header of the vector operations on the current real type R (vec_base.h describes them)
 *   ISA_HAS_TARGET  where isa_end.h has to end a region
 *   TILE_..., BLOCK_..., REST_CASES, ...   sizes of kernels that depend on the number of registers (kernels_all.h)
 * and begins the region of functions that are compiled for it; isa_end.h ends the region and undefines the names. */
#ifndef ASP_ISA_H
#define ASP_ISA_H

#define ASP_HAS_baseline 1
#define ASP_VECTOR_BYTES_baseline 16
#if ASP_X86
#define ASP_EACH_ISA(X, x) X(x, baseline) X(x, avx2) X(x, avx512)
#define ASP_ISA_1 "isa_avx2.h"
#define ASP_ISA_2 "isa_avx512.h"
#define ASP_INTRINSICS <immintrin.h>
/* Whether this processor has each: all features that generated kernels are compiled with. */
#define ASP_HAS_avx2                                                                                              \
    (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi") &&          \
     __builtin_cpu_supports("bmi2") && __builtin_cpu_supports("popcnt"))
#define ASP_HAS_avx512                                                                                            \
    (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&                                   \
     __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512bw"))
#define ASP_VECTOR_BYTES_avx2 32
#define ASP_VECTOR_BYTES_avx512 64
enum { ASP_N_ISAS = 3 };
#elif ASP_ARM
#define ASP_EACH_ISA(X, x) X(x, baseline) X(x, neon)
#define ASP_ISA_1 "isa_neon.h"
#define ASP_INTRINSICS <arm_neon.h>
#define ASP_HAS_neon 1
#define ASP_VECTOR_BYTES_neon 16
enum { ASP_N_ISAS = 2 };
#else
#define ASP_EACH_ISA(X, x) X(x, baseline)
#define ASP_INTRINSICS <stddef.h>
enum { ASP_N_ISAS = 1 };
#endif

/* Bytes of a vector, by level. */
extern const int asp_isa_bytes[ASP_N_ISAS];
/* Return the level in use, or the highest one below whose vectors have at most `bytes` bytes; at least 0. */
int asp_isa_within(int64_t bytes);

/* Initialiser of a table of x_<name>, by level. */
#define ASP_ISA_ENTRY(x, isa) x##_##isa,
#define ASP_ISA_TABLE(x) {ASP_EACH_ISA(ASP_ISA_ENTRY, x)}

#endif
