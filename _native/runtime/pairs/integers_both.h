/* Instantiate the integer kernels of one type for both index types. */
#define INDEX_BODY "integers_body.h"
#include "index_types.h"
#undef TAG
#undef E
#undef EBYTES
