/* Include the file REAL_BODY for both types of reals: R, its name RTAG and its bytes RBYTES. Has no include guard. */
#define R float
#define RBYTES 4
#define RTAG f32
#include REAL_BODY
#undef R
#undef RBYTES
#undef RTAG
#define R double
#define RBYTES 8
#define RTAG f64
#include REAL_BODY
#undef R
#undef RBYTES
#undef RTAG
#undef REAL_BODY
