/* Tiles of identical rows with a partial last vector, for x86-64 with AVX-512. */
#include "kernels.h"

#if ASP_X86
#include <immintrin.h>

#include "tiles.h"

#include "target_avx512.h"

#define ISA asp_avx512
#define VEC_HEADER "vec_avx512.h"
#define IDENTICAL_REGISTERS 32
#include "identical_masked_both.h"

#include "target_end.h"
#endif
