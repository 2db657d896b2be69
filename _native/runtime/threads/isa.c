/* Choice of the instruction set: detected once by CPUID, optionally lowered by asp_force_isa. */
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
    int found = 0;
#if ASP_X86
    __builtin_cpu_init();
    /* All features that generated kernels are compiled with (ISA_FLAGS in c/build.py). */
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi") &&
        __builtin_cpu_supports("bmi2") && __builtin_cpu_supports("popcnt"))
        found = 1;
    if (found && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
        __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512bw"))
        found = 2;
#endif
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

int asp_vector_bytes(void) { return 16 << asp_isa(); }

const asp_kernels *asp_kernels_for(int dtype, int itype, int64_t row_bytes)
{
    if (dtype > ASP_C128) return asp_integers_for(dtype, itype);
#if ASP_X86
    static const asp_kernels(*const tables[])[2] = {asp_kernels_base, asp_kernels_avx2, asp_kernels_avx512};
    const int isa = asp_isa();
    /* Rows that fill at most half of the widest vectors run faster with AVX2: a masked 64-byte load mostly touches two
     * cache lines. */
    const int is_narrow = row_bytes <= 32 && row_bytes > asp_element_bytes(dtype);
    return &tables[isa == 2 && is_narrow ? 1 : isa][dtype][itype];
#else
    (void)row_bytes;
    return &asp_kernels_base[dtype][itype];
#endif
}
