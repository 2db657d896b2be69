/* Instantiate the integer kernels of one type for both index types. */
#define I int32_t
#define ITAG i32
#include "integers_body.h"
#undef I
#undef ITAG
#define I int64_t
#define ITAG i64
#include "integers_body.h"
#undef I
#undef ITAG
#undef TAG
#undef E
#undef EBYTES
