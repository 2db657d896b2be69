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
#include "shipped_avx2_f32_rows_body.h"

const asp_shipped asp_shipped_avx2_f32_rows[] = {
    {"77c68dcaf0da6226895e82339ebf4c95", (void (*)(void))asp_kernel_0},
    {"45dd86496950f52cff37be0bcef5690e", (void (*)(void))asp_kernel_0},
    {NULL, NULL},
};

#ifdef __clang__
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif
#endif
