/* Kernels for x86-64 with AVX-512 (F, VL, DQ, BW). */
#include "kernels.h"

#if ASP_X86
#include <immintrin.h>

#include "tiles.h"

#ifdef __clang__
#pragma clang attribute push(__attribute__((target("avx512f,avx512vl,avx512dq,avx512bw,avx2,fma,bmi,bmi2,popcnt"))), apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx512f,avx512vl,avx512dq,avx512bw,avx2,fma,bmi,bmi2,popcnt")
#endif


#include "lookups.h"

#define ISA asp_avx512
#define ISA_BY_LOADS asp_avx512_by_loads
#define VEC_HEADER "vec_avx512.h"
#define SPMV_HEADER "spmv_avx512.h"
#define SPMV_PLAIN spmv_plain
#define REST_CASES CASES_15 /* fewer reals than a vector holds */
#define TILE_MOST_REAL 16
#define TILE_CASES_REAL CASES_16
#define SHIFT_LEAST 3 /* vectors of a shifted tile */
#define SHIFT_CASES SHIFTS_17
#define TWIN_REGISTERS 32
#define TILE_MOST_COMPLEX 8
#define TILE_CASES_COMPLEX CASES_8
#include "kernels_all.h"

const asp_kernels asp_kernels_avx512[4][2] = KERNEL_TABLE;

#ifdef __clang__
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif
#endif
