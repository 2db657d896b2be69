/* Generated kernels for x86-64 with AVX-512 (F, VL, DQ, BW), written by tools/shipped_kernels.py: do not edit. */
#include "common.h"
#include "shipped.h"

#if ASP_X86
#include <immintrin.h>
#ifdef __clang__
#pragma clang attribute push(__attribute__((target("avx512f,avx512vl,avx512dq,avx512bw,avx2,fma,bmi,bmi2,popcnt"))), apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx512f,avx512vl,avx512dq,avx512bw,avx2,fma,bmi,bmi2,popcnt")
#endif

#define POSITION int64_t
#include "shipped_avx512_f32_common.h"
#include "shipped_avx512_f32_rows_body.h"

const asp_shipped asp_shipped_avx512_f32_i64_rows[] = {
    {"0b21b248e586d3599e69294bd27e3e56", (void (*)(void))asp_kernel_0},
    {"107b32ff0d8364ad0b95b553832f6645", (void (*)(void))asp_kernel_0},
    {NULL, NULL},
};

#ifdef __clang__
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif
#endif
