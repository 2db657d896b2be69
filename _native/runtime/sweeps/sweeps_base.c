/* Operations of sweeps for any CPU (on x86-64: SSE2). */
#include "sweeps.h"

#define ISA(x) x##_base
#define VECTOR_BYTES 16
#include "sweeps_each.h"
