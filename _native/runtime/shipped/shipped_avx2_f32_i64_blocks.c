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
#include "shipped_avx2_f32_common.h"
#include "shipped_avx2_f32_blocks_body.h"

const asp_shipped asp_shipped_avx2_f32_i64_blocks[] = {
    {"d62227e314aef751b12036e198f20515", (void (*)(void))asp_kernel_0},
    {"77586431a5cd01b3b3d476f3900de679", (void (*)(void))asp_kernel_0},
    {NULL, NULL},
};

#ifdef __clang__
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif
#endif
