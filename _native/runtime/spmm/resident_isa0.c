/* Kernels over a cached tile of B for the instruction set of level 0 (isa.h). */
#include "common.h"

#define ASP_ISA_LEVEL 0
#include "resident_isa.h"
