/* Kernels for x86-64 with AVX2 and FMA. */
#include "kernels.h"

#if ASP_X86
#include <immintrin.h>

#include "blocks.h"
#include "tiles.h"

#include "target_avx2.h"

/* asp_lane_masks + 8 - n: a mask of n lanes of 4 bytes, followed by unset lanes. */
static const int32_t asp_lane_masks[16] = {-1, -1, -1, -1, -1, -1, -1, -1, 0, 0, 0, 0, 0, 0, 0, 0};

#include "register_gather.h"

#define ISA asp_avx2
#define ISA_BY_LOADS asp_avx2_by_loads
#define VEC_HEADER "vec_avx2.h"
#define SPMV_HEADER "spmv_avx2.h"
#define SPMV_PLAIN spmv_plain
#define REST_CASES CASES_7 /* fewer reals than a vector holds */
#define TILE_MAX_REAL 12
#define TILE_CASES_REAL CASES_12
#define IDENTICAL_REGISTERS 16
#define TILE_MAX_COMPLEX 6
#define TILE_CASES_COMPLEX CASES_6
#define BLOCK_CASES_1 CASES_4 /* vectors of a tile for blocks of 1, 2, 4, 8 rows */
#define BLOCK_CASES_2 CASES_4
#define BLOCK_CASES_4 CASES_3
#define BLOCK_CASES_8 CASES_1
#define BLOCK_MAX 4
#include "kernels_all.h"

const asp_kernels asp_kernels_avx2[4][2] = KERNEL_TABLE;
const asp_blocks_kernel asp_blocks_avx2[6][2] = BLOCKS_TABLE;

#include "target_end.h"
#endif
