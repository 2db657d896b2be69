/* Generated kernels for x86-64 with AVX2 and FMA, written by tools/shipped_kernels.py: do not edit. */
#include "common.h"
#include "shipped.h"

#if ASP_X86
#include <immintrin.h>
#ifdef __clang__
#pragma clang attribute push(__attribute__((target("avx2,fma,bmi,bmi2,popcnt"))), apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx2,fma,bmi,bmi2,popcnt")
#endif

#define POSITION int32_t
#include "shipped_avx2_f32_common.h"
#include "shipped_avx2_f32_double_body.h"

const asp_shipped asp_shipped_avx2_f32_double[] = {
    {"6f15f0c0c16058dc3836fb325feb8e35", (void (*)(void))asp_kernel_0},
    {"eb61a1e78d3ca890c993e7a478c07bc0", (void (*)(void))asp_kernel_1},
    {NULL, NULL},
};

#ifdef __clang__
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif
#endif
