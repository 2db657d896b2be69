/* Kernels for any CPU (on x86-64: SSE2). */
#include "kernels.h"
#include "blocks.h"
#include "tiles.h"

#define ISA asp_base
#define VEC_HEADER "vec_base.h"
#define SPMV_HEADER "spmv_base.h"
#define SPMV_PLAIN spmv
#define REST_CASES CASES_3 /* fewer reals than a vector holds */
#define TILE_MAX_REAL 8
#define TILE_CASES_REAL CASES_8
#define TILE_MAX_COMPLEX 4
#define TILE_CASES_COMPLEX CASES_4
#define BLOCK_CASES_1 CASES_4 /* vectors of a tile for blocks of 1, 2, 4, 8 rows */
#define BLOCK_CASES_2 CASES_4
#define BLOCK_CASES_4 CASES_3
#define BLOCK_CASES_8 CASES_1
#define BLOCK_MAX 4
#include "kernels_all.h"

const asp_kernels asp_kernels_base[4][2] = KERNEL_TABLE;
const asp_blocks_kernel asp_blocks_base[6][2] = BLOCKS_TABLE;
