/* Tiles of identical rows with a partial last vector, by their number of vectors. */
#include "spmm_tile_body.h"

extern void (*const NAME(masked_twins)[MASKED_TWINS_MAX])(TILE_ARGUMENTS);
#define CASE(nv)                                                                 \
    static ASP_NOINLINE void NAME(masked_twins_##nv)(TILE_ARGUMENTS)             \
    {                                                                            \
        NAME(tile)(nv, MASKED, 1, args, begin, end, j, lanes, lead);             \
    }
CASES_8(CASE)
#undef CASE
#define CASE(nv) NAME(masked_twins_##nv),
void (*const NAME(masked_twins)[MASKED_TWINS_MAX])(TILE_ARGUMENTS) = {CASES_8(CASE)};
#undef CASE
#undef IDENTICAL_MAX
#undef IDENTICAL_TILES
#undef TILE_ARGUMENTS
#undef LOAD_PART
#undef SUMS
#undef SETS
