/* Rows over a tile of B for any processor. */
#include "common.h"
#include "near.h"

#define ISA asp_base
#define VEC_HEADER "vec_base.h"
#define NEAR_MAX 8
#include "near_both.h"

const asp_near_kernel asp_near_base[2] = NEAR_TABLE;
