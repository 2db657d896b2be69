/* Include G_BODY once per instruction set, value type and index type (no include guard: one use per .c file). The
 * including file can then use x_<isa>_<R>_<I> for each x that the body defines by NAME(x). G_TABLE(x) lists the
 * variants by [isa][value type][index type], or by [isa][value type] with G_INDEX_FREE. */

#define ISA base
#define VBYTES 16
#include "graph_types.h"
#undef ISA
#undef VBYTES

#if ASP_X86

#include "target_avx2.h"
#define ISA avx2
#define VBYTES 32
#include "graph_types.h"
#undef ISA
#undef VBYTES
#include "target_end.h"

#ifdef __clang__
#pragma clang attribute push(__attribute__((target("avx512f,avx512vl,avx512bw,avx512dq,avx2,fma,bmi,bmi2"))), \
                             apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx512f,avx512vl,avx512bw,avx512dq,avx2,fma,bmi,bmi2,prefer-vector-width=512")
#endif
#define ISA avx512
#define VBYTES 64
#include "graph_types.h"
#undef ISA
#undef VBYTES
#include "target_end.h"
#endif

#ifdef G_INDEX_FREE
#define G_BY_TYPE(x, isa) {x##_##isa##_float_any, x##_##isa##_double_any}
#else
#define G_BY_TYPE(x, isa)                                                                        \
    {                                                                                            \
        {x##_##isa##_float_int32_t, x##_##isa##_float_int64_t},                                  \
        {x##_##isa##_double_int32_t, x##_##isa##_double_int64_t}                                 \
    }
#endif
#if ASP_X86
#define G_TABLE(x) {G_BY_TYPE(x, base), G_BY_TYPE(x, avx2), G_BY_TYPE(x, avx512)}
#else
#define G_TABLE(x) {G_BY_TYPE(x, base), G_BY_TYPE(x, base), G_BY_TYPE(x, base)}
#endif
