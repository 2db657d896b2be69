/* MTTKRP's kernels for the instruction set of level 2 (isa.h). */
#include "common.h"

#ifdef ASP_ISA_2
#define ASP_ISA_LEVEL 2
#include "csf_isa.h"
#endif
