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

#define POSITION int64_t
#include "shipped_avx2_f64_common.h"
#include "shipped_avx2_f64_rows_body.h"

const asp_shipped asp_shipped_avx2_f64_i64_rows[] = {
    {"7852cbd3694cab0ce93a87ba9578a66c", (void (*)(void))asp_kernel_0},
    {"08fdb85ec26e732488fc00294f4679d4", (void (*)(void))asp_kernel_0},
    {NULL, NULL},
};

#ifdef __clang__
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif
#endif
