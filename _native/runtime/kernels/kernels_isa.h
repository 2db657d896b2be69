/* All kernels of one instruction set but SpMM, for the sources kernels_isa<level>.c. */
#include ASP_INTRINSICS

#include "blocks.h"
#include "kernels.h"
#include "tiles.h"

#include "isa_begin.h"
#ifdef ISA_BY_LOADS
#include "register_gather.h"
#endif
#include "kernels_all.h"

#define TABLE_OF(x, isa) TABLE_OF_(x, isa)
#define TABLE_OF_(x, isa) x##_##isa
const asp_kernels TABLE_OF(asp_kernels, ISA)[4][2] = KERNEL_TABLE;
const asp_blocks_kernel TABLE_OF(asp_blocks, ISA)[3][2] = BLOCKS_TABLE;

#include "isa_end.h"
