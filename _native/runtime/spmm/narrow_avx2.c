/* Products with 2 to 7 columns for x86-64 with AVX2, and the choice of the instruction set. */
#include "narrow.h"

#include "matmul_api.h"

#if ASP_X86
#include <immintrin.h>

#include "target_avx2.h"

/* narrow_lanes + 8 - n: a mask of n lanes of 4 bytes, followed by unset lanes. */
static const int32_t narrow_lanes[16] = {-1, -1, -1, -1, -1, -1, -1, -1, 0, 0, 0, 0, 0, 0, 0, 0};

#define ISA asp_avx2
#include "narrow_all.h"

const asp_kernel asp_narrow_avx2[2][2][MAX_NARROW - 1] = NARROW_TABLE;

#include "target_end.h"
#endif

asp_kernel asp_narrow_kernel(int dtype, int itype, int64_t n_vecs)
{
#if ASP_X86
    const int isa = asp_isa();
    if (isa == 0 || dtype > ASP_F64 || n_vecs < 2 || n_vecs * asp_element_bytes(dtype) >= NARROW_BYTES) return NULL;
    return (isa == 1 ? asp_narrow_avx2 : asp_narrow_avx512)[dtype][itype][n_vecs - 2];
#else
    (void)dtype, (void)itype, (void)n_vecs;
    return NULL;
#endif
}
