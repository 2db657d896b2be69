/* MTTKRP's kernels for the instruction set of level 1 (isa.h). */
#include "common.h"

#ifdef ASP_ISA_1
#define ASP_ISA_LEVEL 1
#include "csf_isa.h"
#endif
