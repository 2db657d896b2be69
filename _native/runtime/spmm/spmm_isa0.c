/* SpMM for the instruction set of level 0 (isa.h). */
#include "common.h"

#define ASP_ISA_LEVEL 0
#include "spmm_isa.h"
