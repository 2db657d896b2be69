/* Integer kernels for x86-64 with AVX2. */
#include "integers.h"

#if ASP_X86
#include "target_avx2.h"

#define ISA asp_integer_avx2
#define VECTOR_BYTES 32
#include "integers_each.h"

const asp_kernels asp_integers_avx2[5][2] = INTEGERS_TABLE;

#include "target_end.h"
#endif
