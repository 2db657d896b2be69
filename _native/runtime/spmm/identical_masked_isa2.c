/* Tiles of identical rows with a partial last vector for the instruction set of level 2 (isa.h). */
#include "common.h"

#ifdef ASP_ISA_2
#define ASP_ISA_LEVEL 2
#include "identical_masked_isa.h"
#endif
