/* Instantiate the kernel bodies for one real type: real and complex values, 32- and 64-bit indices. */
#define I int32_t
#define IBYTES 4
#define ITAG i32
#include "kernels_one.h"
#undef I
#undef IBYTES
#undef ITAG
#define I int64_t
#define IBYTES 8
#define ITAG i64
#include "kernels_one.h"
#undef I
#undef IBYTES
#undef ITAG
#undef TAG
#undef CTAG
