/* Include taylor_body.h for each dtype. Has no include guard. */
#define PARTS 1
#define REAL_BODY "taylor_body.h"
#include "real_types.h"
#undef PARTS
#define PARTS 2
#define REAL_BODY "taylor_body.h"
#include "real_types.h"
#undef PARTS
