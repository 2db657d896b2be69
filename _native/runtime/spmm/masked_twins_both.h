/* Instantiate the tiles of identical rows with a partial last vector (spmm_tile_body.h) for real values. */
#define NAME(x) ASP_GLUE(ISA, TAG, ITAG, x)
#define WORDS 1
#define TILE_MAX MASKED_TWINS_MAX

#define R float
#define RBYTES 4
#define TAG f32
#define RTAG f32
#include VEC_HEADER
#include "masked_twins_each.h"
#undef R
#undef RBYTES
#undef TAG
#undef RTAG

#define R double
#define RBYTES 8
#define TAG f64
#define RTAG f64
#include VEC_HEADER
#include "masked_twins_each.h"
