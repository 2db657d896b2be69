/* SpMM of one instruction set, for the sources spmm_isa<level>.c. */
#include ASP_INTRINSICS

#include "kernels.h"
#include "tiles.h"

#include "isa_begin.h"
#define ONLY_SPMM
#include "kernels_all.h"

#include "isa_end.h"
