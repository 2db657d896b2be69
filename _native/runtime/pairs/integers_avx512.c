/* Integer kernels for x86-64 with AVX-512. */
#include "integers.h"

#if ASP_X86
#include "target_avx512.h"

#define ISA asp_integer_avx512
#define VECTOR_BYTES 64
#include "integers_each.h"

const asp_kernels asp_integers_avx512[5][2] = INTEGERS_TABLE;

#include "target_end.h"
#endif
