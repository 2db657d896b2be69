/* Instantiate the tiles of identical rows with a partial last vector (spmm_tile_body.h) for real values and indices of
 * 32 bits. */
#define NAME(x) ASP_GLUE(ISA, TAG, ITAG, x)
#define WORDS 1
#define TILE_MAX MAX_IDENTICAL_MASKED
#define I int32_t
#define ITAG i32

#define R float
#define RBYTES 4
#define TAG f32
#define RTAG f32
#include VEC_HEADER
#include "identical_masked_body.h"
#undef R
#undef RBYTES
#undef TAG
#undef RTAG

#define R double
#define RBYTES 8
#define TAG f64
#define RTAG f64
#include VEC_HEADER
#include "identical_masked_body.h"
