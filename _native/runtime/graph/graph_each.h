/* Include G_BODY once per instruction set, value type and index type (no include guard: one use per .c file). The
 * including file can then use x_<isa>_<R>_<I> for each x that the body defines by NAME(x). G_TABLE(x) lists the
 * variants by [isa][value type][index type], or by [isa][value type] with G_INDEX_FREE. */

#define ISA_WIDE_LOOPS
#define ISA_BODY "graph_types.h"
#include "each_isa.h"
#undef ISA_WIDE_LOOPS

#ifdef G_INDEX_FREE
#define G_BY_TYPE(x, isa) {x##_##isa##_float_any, x##_##isa##_double_any},
#else
#define G_BY_TYPE(x, isa)                                                                        \
    {                                                                                            \
        {x##_##isa##_float_int32_t, x##_##isa##_float_int64_t},                                  \
        {x##_##isa##_double_int32_t, x##_##isa##_double_int64_t}                                 \
    },
#endif
#define G_TABLE(x) {ASP_EACH_ISA(G_BY_TYPE, x)}
