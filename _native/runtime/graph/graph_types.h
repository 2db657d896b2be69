/* Include G_BODY for one instruction set, for float and double values and int32 and int64 indices. Where G_INDEX_FREE
 * is defined, the body uses no indices; it is included once per value type, with `any` for the index type in names.
 * Has no include guard. */
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
