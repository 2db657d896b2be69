/* Instantiate the tiles of identical rows with a partial last vector (spmm_tile_body.h) for real values and indices of
 * 32 bits. */
#define NAME(x) ASP_GLUE(ISA, RTAG, ITAG, x)
#define WORDS 1
#define TILE_MAX MAX_IDENTICAL_MASKED
#define I int32_t
#define ITAG i32
#define REAL_BODY "identical_masked_body.h"
#include "real_types.h"
