/* Instantiate short_rows_body.h for one instruction set, and list its kernels by [dtype][itype]. */
#define NAME(x) ASP_GLUE(ISA, RTAG, ITAG, x)
#define REAL_BODY "short_rows_each.h"
#include "real_types.h"
#undef NAME

#define KERNELS_OF(tag) {ASP_GLUE(ISA, tag, i32, short_rows), ASP_GLUE(ISA, tag, i64, short_rows)}
#define TABLE_(isa) short_rows_##isa
#define TABLE(isa) TABLE_(isa)
static const asp_kernel TABLE(ISA)[2][2] = {KERNELS_OF(f32), KERNELS_OF(f64)};
#undef TABLE_
#undef TABLE
#undef KERNELS_OF
