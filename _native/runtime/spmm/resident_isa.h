/* Kernels over a cached tile of B of one instruction set, for the sources resident_isa<level>.c. */
#include ASP_INTRINSICS

#include "resident.h"

#include "isa_begin.h"
#include "resident_both.h"

#define TABLE_OF(isa) TABLE_OF_(isa)
#define TABLE_OF_(isa) asp_resident_##isa
const asp_resident_kernel TABLE_OF(ISA)[2] = RESIDENT_TABLE;

#include "isa_end.h"
