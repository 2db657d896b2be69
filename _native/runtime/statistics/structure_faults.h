/* Faults of row starts and indices (structure.c) for one instruction set. Differences of nonnegative numbers do not
 * overflow, and 64-bit comparisons have no vector instruction on baseline x86-64. */
#define PASTED(x, isa) x##_##isa
#define WITH(x, isa) PASTED(x, isa)
#define NAME(x) WITH(x, ISA)
#define FAULTS(TASK, U, FAULT)                                                                            \
    static uint64_t TASK(const void *elements, int64_t begin, int64_t end, uint64_t bound)                \
    {                                                                                                     \
        const U *array = elements, last = (U)(bound - 1);                                                 \
        U faults = 0;                                                                                     \
        (void)last;                                                                                       \
        for (int64_t k = begin; k < end; k++) faults |= FAULT;                                            \
        return (uint64_t)(faults >> (8 * sizeof(U) - 1)) << 63;                                           \
    }
FAULTS(NAME(rows_i32), uint32_t, array[k + 1] | (array[k + 1] - array[k]))
FAULTS(NAME(rows_i64), uint64_t, array[k + 1] | (array[k + 1] - array[k]))
FAULTS(NAME(indices_i32), uint32_t, array[k] | (last - array[k]))
FAULTS(NAME(indices_i64), uint64_t, array[k] | (last - array[k]))
static const find_faults NAME(faults)[] = {NAME(rows_i32), NAME(rows_i64), NAME(indices_i32), NAME(indices_i64)};
#undef FAULTS
#undef NAME
#undef WITH
#undef PASTED
