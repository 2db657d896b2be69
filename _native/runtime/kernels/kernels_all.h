/* Instantiate the kernels of one instruction set for every value and index type. The including file defines
 * VEC_HEADER, SPMV_HEADER, ISA and TILE_*. */
#define NAME(x) ASP_GLUE(ISA, TAG, ITAG, x)

#define REAL_BODY "kernels_each.h"
#include "real_types.h"

/* Complex and portable kernels use no gather instructions, so they have no second variant. */
#ifdef ISA_BY_LOADS
#define BY_LOADS(tag, itag) ASP_GLUE(ISA_BY_LOADS, tag, itag, spmv)
#else
#define BY_LOADS(tag, itag) ASP_GLUE(ISA, tag, itag, spmv)
#endif
#define KERNELS(tag, itag, by_loads)                                                                            \
    {ASP_GLUE(ISA, tag, itag, spmv), by_loads, ASP_GLUE(ISA, tag, itag, spmm), ASP_GLUE(ISA, tag, itag, scatter), \
     ASP_GLUE(ISA, f32, itag, extent)}
#define ROW(tag, itag) KERNELS(tag, itag, BY_LOADS(tag, itag))
#define COMPLEX_ROW(tag, itag) KERNELS(tag, itag, ASP_GLUE(ISA, tag, itag, spmv))
#define KERNEL_TABLE                                                                                 \
    {                                                                                                \
        {ROW(f32, i32), ROW(f32, i64)}, {ROW(f64, i32), ROW(f64, i64)}, {COMPLEX_ROW(c64, i32), COMPLEX_ROW(c64, i64)}, \
            {COMPLEX_ROW(c128, i32), COMPLEX_ROW(c128, i64)},                                                        \
    }
#define BLOCKS(rows) {ASP_GLUE(ISA, f32, blocks, rows), ASP_GLUE(ISA, f64, blocks, rows)}
#define BLOCKS_TABLE {BLOCKS(rows_1), BLOCKS(rows_4), BLOCKS(rows_8)}
