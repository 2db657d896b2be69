/* Kernels over a cached tile of B for x86-64 with AVX-512. */
#include "common.h"
#include "resident.h"

#if ASP_X86
#include <immintrin.h>

#include "target_avx512.h"

#define ISA asp_avx512
#define VEC_HEADER "vec_avx512.h"
#define RESIDENT_MAX 4 /* vectors of a tile: with more, fewer rows of B stay in the cache */
#include "resident_both.h"

const asp_resident_kernel asp_resident_avx512[2] = RESIDENT_TABLE;

#include "target_end.h"
#endif
