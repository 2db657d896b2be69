/* Kernels over a cached tile of B for x86-64 with AVX2 and FMA. */
#include "common.h"
#include "resident.h"

#if ASP_X86
#include <immintrin.h>

#include "target_avx2.h"

#define ISA asp_avx2
#define VEC_HEADER "vec_avx2.h"
#define RESIDENT_MAX 8
#include "resident_both.h"

const asp_resident_kernel asp_resident_avx2[2] = RESIDENT_TABLE;

#include "target_end.h"
#endif
