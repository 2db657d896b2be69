/* One instruction set: G_BODY for float and double values, int32 and int64 indices (not guarded). */
#define NAME(x) G_PASTE(x, ISA, R, I)

#define R float
#define RINT int32_t
#define IS_FLOAT 1
#define I int32_t
#include "graph_vector.h"
#include G_BODY
#undef I
#define I int64_t
#include "graph_vector.h"
#include G_BODY
#undef I
#undef R
#undef RINT
#undef IS_FLOAT

#define R double
#define RINT int64_t
#define IS_FLOAT 0
#define I int32_t
#include "graph_vector.h"
#include G_BODY
#undef I
#define I int64_t
#include "graph_vector.h"
#include G_BODY
#undef I
#undef R
#undef RINT
#undef IS_FLOAT

#undef NAME
