/* Rows over a tile of B for x86-64 with AVX2 and FMA. */
#include "common.h"
#include "near.h"

#if ASP_X86
#include <immintrin.h>

#include "target_avx2.h"

#define ISA asp_avx2
#define VEC_HEADER "vec_avx2.h"
#define NEAR_MAX 8
#include "near_both.h"

const asp_near_kernel asp_near_avx2[2] = NEAR_TABLE;

#include "target_end.h"
#endif
