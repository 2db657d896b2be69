/* WACONet for x86-64 with AVX2 and FMA. */
#include "waconet.h"

#if ASP_X86
#include "target_avx2.h"

#define ISA avx2
#define SETS 2
#include "waconet_body.h"

#include "target_end.h"
#endif
