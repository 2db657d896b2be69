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
#include "shipped_avx2_f64_common.h"
#include "shipped_avx2_f64_double_body.h"

const asp_shipped asp_shipped_avx2_f64_double[] = {
    {"67f363b4d3a8c2ffa23ed5d7f1923a93", (void (*)(void))asp_kernel_0},
    {"831b960a2dc9e7f7a10ab1354b65a397", (void (*)(void))asp_kernel_1},
    {NULL, NULL},
};

#ifdef __clang__
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif
#endif
