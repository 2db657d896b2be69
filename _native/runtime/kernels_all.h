/* Every (value type, index type) of one instruction set: VEC_HEADER, SPMV_HEADER, ISA and TILE_* come from the
 * including file. */
#define NAME(x) ASP_GLUE(ISA, TAG, ITAG, x)

#define R float
#define RBYTES 4
#define RTAG f32
#include VEC_HEADER
#define TAG f32
#define CTAG c64
#include "kernels_each.h"
#undef R
#undef RBYTES
#undef RTAG

#define R double
#define RBYTES 8
#define RTAG f64
#include VEC_HEADER
#define TAG f64
#define CTAG c128
#include "kernels_each.h"
#undef R
#undef RBYTES
#undef RTAG

#define ROW(tag, itag) \
    {ASP_GLUE(ISA, tag, itag, spmv), ASP_GLUE(ISA, tag, itag, spmm), ASP_GLUE(ISA, tag, itag, scatter)}
#define KERNEL_TABLE                                                                                 \
    {                                                                                                \
        {ROW(f32, i32), ROW(f32, i64)}, {ROW(f64, i32), ROW(f64, i64)}, {ROW(c64, i32), ROW(c64, i64)}, \
            {ROW(c128, i32), ROW(c128, i64)},                                                        \
    }
