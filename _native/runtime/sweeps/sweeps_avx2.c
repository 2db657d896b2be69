/* Operations of sweeps for x86-64 with AVX2. */
#include "sweeps.h"

#if ASP_X86
#include "target_avx2.h"
#define ISA(x) x##_avx2
#define VECTOR_BYTES 32
#include "sweeps_each.h"

#include "target_end.h"
#endif
