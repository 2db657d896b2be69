/* Instantiate narrow_each.h for every real type and index type of one instruction set; NARROW_TABLE lists the kernels
 * by [value type][index type][columns - 2]. */
#define NARROW_NAME_(a, b, c, d, e) a##_##b##_##c##_##e##_##d
#define NARROW_NAME(a, b, c, d, e) NARROW_NAME_(a, b, c, d, e)

#define R float
#define RBYTES 4
#define TAG f32
#define I int32_t
#define ITAG i32
#include "narrow_each.h"
#undef I
#undef ITAG
#define I int64_t
#define ITAG i64
#include "narrow_each.h"
#undef I
#undef ITAG
#undef R
#undef RBYTES
#undef TAG

#define R double
#define RBYTES 8
#define TAG f64
#define I int32_t
#define ITAG i32
#include "narrow_each.h"
#undef I
#undef ITAG
#define I int64_t
#define ITAG i64
#include "narrow_each.h"
#undef I
#undef ITAG
#undef R
#undef RBYTES
#undef TAG

#define NARROW(tag, itag, n) NARROW_NAME(ISA, tag, itag, n, narrow)
#define NARROW_F32(itag)                                                                                    \
    {                                                                                                       \
        NARROW(f32, itag, 2), NARROW(f32, itag, 3), NARROW(f32, itag, 4), NARROW(f32, itag, 5),             \
            NARROW(f32, itag, 6), NARROW(f32, itag, 7)                                                      \
    }
#define NARROW_F64(itag) {NARROW(f64, itag, 2), NARROW(f64, itag, 3)}
#define NARROW_TABLE {{NARROW_F32(i32), NARROW_F32(i64)}, {NARROW_F64(i32), NARROW_F64(i64)}}
