/* Any processor: 16-byte vectors of the compiler. isa.h describes the names. */
#define ISA baseline
#define VBYTES 16
#define VEC_HEADER "vec_base.h"

#define SPMV_HEADER "spmv_base.h"
#define SPMV_PLAIN spmv
#define REST_CASES CASES_3 /* fewer reals than a vector holds */
#define TILE_MAX_REAL 8
#define TILE_CASES_REAL CASES_8
#define TILE_MAX_COMPLEX 4
#define TILE_CASES_COMPLEX CASES_4
#define BLOCK_CASES_1 CASES_4 /* vectors of a tile for blocks of 1, 4, 8 rows */
#define BLOCK_CASES_4 CASES_3
#define BLOCK_CASES_8 CASES_1
#define BLOCK_MAX 4
#define RESIDENT_MAX 8
