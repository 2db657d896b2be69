/* Instantiate the kernel bodies for one real type and one index type, first for real, then for complex values (WORDS
 * reals per value). */
#define WORDS 1
#define TILE_MAX TILE_MAX_REAL
#define TILE_CASES TILE_CASES_REAL
#define SCATTER_CASES TILE_CASES
#define GATHERS 1
#include SPMV_HEADER
#undef GATHERS
#ifdef ISA_BY_LOADS
#pragma push_macro("ISA")
#undef ISA
#define ISA ISA_BY_LOADS
#define GATHERS 0
#include SPMV_HEADER
#undef GATHERS
#pragma pop_macro("ISA")
#endif
#include "spmm_body.h"
#include "scatter_body.h"
#if RBYTES == 4
#include "extent_body.h"
#endif
#undef WORDS
#undef TILE_MAX
#undef TILE_CASES
#undef SCATTER_CASES

#pragma push_macro("TAG")
#undef TAG
#define TAG CTAG
#define WORDS 2
#define TILE_MAX TILE_MAX_COMPLEX
#define TILE_CASES TILE_CASES_COMPLEX
#define SCATTER_CASES CASES_4
#include "complex_body.h"
#include "spmm_body.h"
#include "scatter_body.h"
#undef WORDS
#undef TILE_MAX
#undef TILE_CASES
#undef SCATTER_CASES
#pragma pop_macro("TAG")
