/* Integer kernels for any CPU (on x86-64: SSE2), and the choice among instruction sets. */
#include "integers.h"
#include "matmul_api.h"

#define ISA asp_integer_base
#define VECTOR_BYTES 16
#include "integers_each.h"

const asp_kernels asp_integers_base[5][2] = INTEGERS_TABLE;

const asp_kernels *asp_integers_for(int dtype, int itype)
{
#if ASP_X86
    static const asp_kernels(*const tables[])[2] = {asp_integers_base, asp_integers_avx2, asp_integers_avx512};
    return &tables[asp_isa()][dtype - ASP_BOOL][itype];
#else
    return &asp_integers_base[dtype - ASP_BOOL][itype];
#endif
}
