/* Integer kernels for the instruction set of level 0 (isa.h). */
#include "common.h"

#define ASP_ISA_LEVEL 0
#include "integers_isa.h"

#include "matmul_api.h"

const asp_kernels *asp_integers_for(int dtype, int itype)
{
    static const asp_kernels(*const tables[])[2] = ASP_ISA_TABLE(asp_integers);
    return &tables[asp_isa()][dtype - ASP_BOOL][itype];
}
