/* Kernels for x86-64 with AVX-512 (F, VL, DQ, BW). */
#include "kernels.h"

#if ASP_X86
#include <immintrin.h>

#include "blocks.h"
#include "tiles.h"

#include "target_avx512.h"


#include "register_gather.h"

#define ISA asp_avx512
#define ISA_BY_LOADS asp_avx512_by_loads
#define VEC_HEADER "vec_avx512.h"
#define SPMV_HEADER "spmv_avx512.h"
#define SPMV_PLAIN spmv_plain
#define REST_CASES CASES_15 /* fewer reals than a vector holds */
#define TILE_MAX_REAL 16
#define TILE_CASES_REAL CASES_16
#define SHIFT_MIN 3 /* minimum number of vectors of a shifted tile */
#define SHIFT_CASES SHIFTS_17
#define IDENTICAL_REGISTERS 32
#define TILE_MAX_COMPLEX 8
#define TILE_CASES_COMPLEX CASES_8
#define BLOCK_CASES_1 CASES_9 /* vectors of a tile for blocks of 1, 2, 4, 8 rows */
#define BLOCK_CASES_2 CASES_9
#define BLOCK_CASES_4 CASES_6
#define BLOCK_CASES_8 CASES_3
#define BLOCK_MAX 9
#include "kernels_all.h"

const asp_kernels asp_kernels_avx512[4][2] = KERNEL_TABLE;
const asp_blocks_kernel asp_blocks_avx512[6][2] = BLOCKS_TABLE;

#include "target_end.h"
#endif
