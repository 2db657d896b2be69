/* Tiles of identical rows with a partial last vector, for x86-64 with AVX2. */
#include "kernels.h"

#if ASP_X86
#include <immintrin.h>

#include "tiles.h"

#include "target_avx2.h"

/* asp_lane_masks + 8 - n: a mask of n lanes of 4 bytes, followed by unset lanes. */
static const int32_t asp_lane_masks[16] = {-1, -1, -1, -1, -1, -1, -1, -1, 0, 0, 0, 0, 0, 0, 0, 0};
#define ISA asp_avx2
#define VEC_HEADER "vec_avx2.h"
#define IDENTICAL_REGISTERS 16
#include "identical_masked_both.h"

#include "target_end.h"
#endif
