/* Include spgemm_body.h for both index types of one value type. Has no include guard. */
#define SG_I int32_t
#define SG_STAMP uint32_t
#define SG_ITAG i32
#include "spgemm_body.h"
#undef SG_I
#undef SG_STAMP
#undef SG_ITAG
#define SG_I int64_t
#define SG_STAMP uint64_t
#define SG_ITAG i64
#include "spgemm_body.h"
#undef SG_I
#undef SG_STAMP
#undef SG_ITAG
#undef SG_T
#undef SG_D
