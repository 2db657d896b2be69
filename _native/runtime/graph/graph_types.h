/* One instruction set: G_BODY for float and double values, int32 and int64 indices (not guarded); where G_INDEX_FREE is
 * defined the body has no indices and is included once per value type, with `any` for the index type in names. */
#define NAME(x) ASP_GLUE(x, ISA, R, I)

#define R float
#define RINT int32_t
#define IS_FLOAT 1
#include "graph_indices.h"
#undef R
#undef RINT
#undef IS_FLOAT

#define R double
#define RINT int64_t
#define IS_FLOAT 0
#include "graph_indices.h"
#undef R
#undef RINT
#undef IS_FLOAT

#undef NAME
