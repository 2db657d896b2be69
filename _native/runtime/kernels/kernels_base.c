/* Kernels for any CPU (on x86-64: SSE2). */
#include "kernels.h"
#include "tiles.h"

#define ISA asp_base
#define VEC_HEADER "vec_base.h"
#define SPMV_HEADER "spmv_base.h"
#define SPMV_PLAIN spmv
#define REST_CASES CASES_3 /* fewer reals than a vector holds */
#define TILE_MOST_REAL 8
#define TILE_CASES_REAL CASES_8
#define TILE_MOST_COMPLEX 4
#define TILE_CASES_COMPLEX CASES_4
#include "kernels_all.h"

const asp_kernels asp_kernels_base[4][2] = KERNEL_TABLE;
