/* Instantiate the kernel bodies for one real type: real and complex values, 32- and 64-bit indices. */
#include VEC_HEADER
#if RBYTES == 4
#define TAG f32
#define CTAG c64
#else
#define TAG f64
#define CTAG c128
#endif
#ifndef ONLY_SPMM
#include "blocks_body.h"
#endif
#define INDEX_BODY "kernels_one.h"
#include "index_types.h"
#undef TAG
#undef CTAG
