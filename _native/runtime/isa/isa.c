/* Choice of the instruction set: detected once, optionally lowered by asp_force_isa. */
#include "kernels.h"
#include "integers.h"

#include "matmul_api.h"

/* Upper bound set by asp_force_isa; -1: none. */
static _Atomic int forced = -1;

int asp_best_isa(void)
{
    static _Atomic int best = -1;
    int known = atomic_load_explicit(&best, memory_order_relaxed);
    if (known >= 0) return known;
#if ASP_X86
    __builtin_cpu_init();
#endif
#define HAS(x, isa) ASP_HAS_##isa,
    const int has[] = {ASP_EACH_ISA(HAS, )};
    int found = 0;
    while (found + 1 < ASP_N_ISAS && has[found + 1]) found++;
    atomic_store_explicit(&best, found, memory_order_relaxed);
    return found;
}

int asp_isa(void)
{
    int wish = atomic_load_explicit(&forced, memory_order_relaxed), best = asp_best_isa();
    return wish >= 0 && wish < best ? wish : best;
}

int asp_force_isa(int isa)
{
    atomic_store_explicit(&forced, isa, memory_order_relaxed);
    return asp_isa();
}

#define VECTOR_BYTES(x, isa) ASP_VECTOR_BYTES_##isa,
const int asp_isa_bytes[ASP_N_ISAS] = {ASP_EACH_ISA(VECTOR_BYTES, )};

int asp_vector_bytes(void) { return asp_isa_bytes[asp_isa()]; }

int asp_isa_within(int64_t bytes)
{
    int isa = asp_isa();
    while (isa > 0 && asp_isa_bytes[isa] > bytes) isa--;
    return isa;
}

const asp_kernels *asp_kernels_for(int dtype, int itype, int64_t row_bytes)
{
    static const asp_kernels(*const integers[])[2] = ASP_ISA_TABLE(asp_integers);
    if (dtype > ASP_C128) return &integers[asp_isa()][dtype - ASP_BOOL][itype];
    static const asp_kernels(*const tables[])[2] = ASP_ISA_TABLE(asp_kernels);
    /* Rows that fill at most half of the widest vectors run faster with vectors of half the width: a masked 64-byte
     * load mostly touches two cache lines. */
    const int is_narrow = row_bytes <= 32 && row_bytes > asp_element_bytes(dtype), isa = asp_isa();
    return &tables[is_narrow && asp_isa_bytes[isa] > 32 ? isa - 1 : isa][dtype][itype];
}
