/* Instantiate the kernel bodies for one real type and one index type, first for real, then for complex values (WORDS
 * reals per value). SpMM is compiled in spmm_isa<level>.c (ONLY_SPMM), because it takes most of the time. */
#define WORDS 1
#define TILE_MAX TILE_MAX_REAL
#define TILE_CASES TILE_CASES_REAL
#define SCATTER_CASES TILE_CASES
#ifdef ONLY_SPMM
#include "spmm_body.h"
#else
extern void NAME(spmm)(const asp_args *args, int64_t begin, int64_t end);
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
#include "scatter_body.h"
#if RBYTES == 4
#include "extent_body.h"
#endif
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
#ifdef ONLY_SPMM
#include "spmm_body.h"
#else
extern void NAME(spmm)(const asp_args *args, int64_t begin, int64_t end);
#include "scatter_body.h"
#endif
#undef WORDS
#undef TILE_MAX
#undef TILE_CASES
#undef SCATTER_CASES
#pragma pop_macro("TAG")
