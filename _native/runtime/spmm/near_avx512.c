/* Rows over a tile of B for x86-64 with AVX-512. */
#include "common.h"
#include "near.h"

#if ASP_X86
#include <immintrin.h>

#include "target_avx512.h"

#define ISA asp_avx512
#define VEC_HEADER "vec_avx512.h"
#define NEAR_MAX 4 /* vectors of a tile: of more, fewer rows of B stay near */
#include "near_both.h"

const asp_near_kernel asp_near_avx512[2] = NEAR_TABLE;

#include "target_end.h"
#endif
