/* Kernels over a cached tile of B for any processor. */
#include "common.h"
#include "resident.h"

#define ISA asp_base
#define VEC_HEADER "vec_base.h"
#define RESIDENT_MAX 8
#include "resident_both.h"

const asp_resident_kernel asp_resident_base[2] = RESIDENT_TABLE;
