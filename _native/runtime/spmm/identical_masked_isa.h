/* Tiles of identical rows with a partial last vector of one instruction set, for the sources
 * identical_masked_isa<level>.c. */
#include ASP_INTRINSICS

#include "kernels.h"
#include "tiles.h"

#include "isa_begin.h"
#ifdef IDENTICAL_REGISTERS
#include "identical_masked_both.h"
#endif

#include "isa_end.h"
