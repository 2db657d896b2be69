/* Instantiate irregular_rows_body.h for both index types. */
#define I int32_t
#define ITAG i32
#include "irregular_rows_body.h"
#undef I
#undef ITAG
#define I int64_t
#define ITAG i64
#include "irregular_rows_body.h"
#undef I
#undef ITAG
