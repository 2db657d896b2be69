/* Instantiate narrow_each.h for every real type and index type of one instruction set; NARROW_TABLE lists the kernels
 * by [value type][index type][columns - 2]. */
#define NARROW_NAME_(a, b, c, d, e) a##_##b##_##c##_##e##_##d
#define NARROW_NAME(a, b, c, d, e) NARROW_NAME_(a, b, c, d, e)

#define R float
#define RBYTES 4
#define TAG f32
#define I int32_t
#define IBYTES 4
#define ITAG i32
#include "narrow_each.h"
#undef I
#undef IBYTES
#undef ITAG
#define I int64_t
#define IBYTES 8
#define ITAG i64
#include "narrow_each.h"
#undef I
#undef IBYTES
#undef ITAG
#undef R
#undef RBYTES
#undef TAG

#define R double
#define RBYTES 8
#define TAG f64
#define I int32_t
#define IBYTES 4
#define ITAG i32
#include "narrow_each.h"
#undef I
#undef IBYTES
#undef ITAG
#define I int64_t
#define IBYTES 8
#define ITAG i64
#include "narrow_each.h"
#undef I
#undef IBYTES
#undef ITAG
#undef R
#undef RBYTES
#undef TAG

#ifdef HAS_GATHERS
#define SMALLEST gathering
#else
#define SMALLEST narrow
#endif
#define NARROW(tag, itag, n, name) NARROW_NAME(ISA, tag, itag, n, name)
#define NARROW_F32(itag)                                                                                       \
    {                                                                                                          \
        NARROW(f32, itag, 2, SMALLEST), NARROW(f32, itag, 3, SMALLEST), NARROW(f32, itag, 4, SMALLEST),        \
            NARROW(f32, itag, 5, narrow), NARROW(f32, itag, 6, narrow), NARROW(f32, itag, 7, narrow)           \
    }
#define NARROW_F64(itag) {NARROW(f64, itag, 2, SMALLEST), NARROW(f64, itag, 3, narrow)}
#define NARROW_TABLE {{NARROW_F32(i32), NARROW_F32(i64)}, {NARROW_F64(i32), NARROW_F64(i64)}}
