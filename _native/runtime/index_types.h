/* Include the file INDEX_BODY for both types of indices: I, its name ITAG and its bytes IBYTES. Has no include guard. */
#define I int32_t
#define IBYTES 4
#define ITAG i32
#include INDEX_BODY
#undef I
#undef IBYTES
#undef ITAG
#define I int64_t
#define IBYTES 8
#define ITAG i64
#include INDEX_BODY
#undef I
#undef IBYTES
#undef ITAG
#undef INDEX_BODY
