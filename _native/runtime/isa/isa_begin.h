/* Begin the functions of the instruction set of level ASP_ISA_LEVEL (isa.h); isa_end.h ends them. Has no include guard. */
#if ASP_ISA_LEVEL == 0
#include "isa_baseline.h"
#elif ASP_ISA_LEVEL == 1
#include ASP_ISA_1
#else
#include ASP_ISA_2
#endif
