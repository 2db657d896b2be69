/* Operations of sweeps for x86-64 with AVX-512. */
#include "sweeps.h"

#if ASP_X86
#include "target_avx512.h"
#define ISA(x) x##_avx512
#define VECTOR_BYTES 64
#include "sweeps_each.h"

#include "target_end.h"
#endif
