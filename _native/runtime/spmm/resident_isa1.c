/* Kernels over a cached tile of B for the instruction set of level 1 (isa.h). */
#include "common.h"

#ifdef ASP_ISA_1
#define ASP_ISA_LEVEL 1
#include "resident_isa.h"
#endif
