/* Instantiate resident_body.h for both real types. */
#define R float
#define RBYTES 4
#define TAG f32
#define RTAG f32
#include VEC_HEADER
#include "resident_body.h"
#undef R
#undef RBYTES
#undef TAG
#undef RTAG
#define R double
#define RBYTES 8
#define TAG f64
#define RTAG f64
#include VEC_HEADER
#include "resident_body.h"
#undef R
#undef RBYTES
#undef TAG
#undef RTAG
#define RESIDENT_TABLE {ASP_GLUE(ISA, f32, resident, rows), ASP_GLUE(ISA, f64, resident, rows)}
