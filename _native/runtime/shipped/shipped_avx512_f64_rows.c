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

#define POSITION int32_t
#include "shipped_avx512_f64_common.h"
#include "shipped_avx512_f64_rows_body.h"

const asp_shipped asp_shipped_avx512_f64_rows[] = {
    {"f2069c039d45d213021ccaf835380879", (void (*)(void))asp_kernel_0},
    {"88a6e4be1ed055107c6b643980670385", (void (*)(void))asp_kernel_0},
    {NULL, NULL},
};

#ifdef __clang__
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif
#endif
