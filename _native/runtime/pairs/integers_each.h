/* Instantiate the integer kernels of one instruction set for every integer type, bool and index type. The including
 * file defines ISA and VBYTES. */
#define NAME(x) ASP_GLUE(ISA, TAG, ITAG, x)

#define TAG bool
#define E uint8_t
#define EBYTES 1
#define IS_BOOL 1
#include "integers_both.h"
#undef IS_BOOL
#define IS_BOOL 0
#define TAG u8
#define E uint8_t
#define EBYTES 1
#include "integers_both.h"
#define TAG u16
#define E uint16_t
#define EBYTES 2
#include "integers_both.h"
#define TAG u32
#define E uint32_t
#define EBYTES 4
#include "integers_both.h"
#define TAG u64
#define E uint64_t
#define EBYTES 8
#include "integers_both.h"
#undef IS_BOOL
#undef NAME

#define INTEGERS(tag, itag)                                                              \
    {ASP_GLUE(ISA, tag, itag, spmv), ASP_GLUE(ISA, tag, itag, spmv), ASP_GLUE(ISA, tag, itag, spmm), \
     ASP_GLUE(ISA, tag, itag, scatter), NULL}
#define INTEGERS_ROW(tag) {INTEGERS(tag, i32), INTEGERS(tag, i64)}
#define INTEGERS_TABLE \
    {INTEGERS_ROW(bool), INTEGERS_ROW(u8), INTEGERS_ROW(u16), INTEGERS_ROW(u32), INTEGERS_ROW(u64)}
