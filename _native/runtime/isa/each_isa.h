/* Include ISA_BODY once per instruction set, between isa_begin.h and isa_end.h. Has no include guard. */
#define ASP_ISA_LEVEL 0
#include "isa_begin.h"
#include ISA_BODY
#include "isa_end.h"
#undef ASP_ISA_LEVEL
#ifdef ASP_ISA_1
#define ASP_ISA_LEVEL 1
#include "isa_begin.h"
#include ISA_BODY
#include "isa_end.h"
#undef ASP_ISA_LEVEL
#endif
#ifdef ASP_ISA_2
#define ASP_ISA_LEVEL 2
#include "isa_begin.h"
#include ISA_BODY
#include "isa_end.h"
#undef ASP_ISA_LEVEL
#endif
#undef ISA_BODY
