/* WACONet for x86-64 with AVX-512. */
#include "waconet.h"

#if ASP_X86
#include "target_avx512.h"

#define ISA avx512
#define SETS 4
#include "waconet_body.h"

#include "target_end.h"
#endif
