/* Include G_BODY for one instruction set and value type and for each index type; see graph_types.h. Has no include
 * guard. */
#ifdef G_INDEX_FREE
#define I any
#include "graph_vector.h"
#include G_BODY
#undef I
#else
#define I int32_t
#include "graph_vector.h"
#include G_BODY
#undef I
#define I int64_t
#include "graph_vector.h"
#include G_BODY
#undef I
#endif
