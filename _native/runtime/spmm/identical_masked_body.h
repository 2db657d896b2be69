/* Tiles of identical rows with a partial last vector, by their number of vectors. */
#include VEC_HEADER
#include "spmm_tile_body.h"

extern void (*const NAME(identical_masked)[MAX_IDENTICAL_MASKED])(TILE_ARGUMENTS);
#define CASE(nv)                                                                 \
    static ASP_NOINLINE void NAME(identical_masked_##nv)(TILE_ARGUMENTS)             \
    {                                                                            \
        NAME(tile)(nv, MASKED, 1, args, begin, end, j, lanes, lead);             \
    }
CASES_9(CASE)
#undef CASE
#define CASE(nv) NAME(identical_masked_##nv),
void (*const NAME(identical_masked)[MAX_IDENTICAL_MASKED])(TILE_ARGUMENTS) = {CASES_9(CASE)};
#undef CASE
#undef IDENTICAL_MAX
#undef IDENTICAL_TILES
#undef TILE_ARGUMENTS
#undef LOAD_PART
#undef SUMS
#undef SETS
