/* C[i, :] = A[i] B for the rows [begin, end): the tiles that are compiled, and the choice among them. */
#include "spmm_tile_body.h"

#define KIND(nv, name, kind) \
    static ASP_NOINLINE void NAME(name##_##nv)(TILE_ARGUMENTS) { NAME(tile)(nv, kind, 0, args, begin, end, j, lanes, lead); }
/* Variants for matrices with identical rows: searching for these costs other matrices up to 10 %. */
#if IDENTICAL_TILES
#define KIND_OF_IDENTICAL(nv, name, kind)                                \
    static ASP_NOINLINE void NAME(name##_identical_##nv)(TILE_ARGUMENTS) \
    {                                                                \
        NAME(tile)(nv, kind, 1, args, begin, end, j, lanes, lead);   \
    }
#define CASE(nv) KIND_OF_IDENTICAL(nv, whole, WHOLE)
TILE_CASES(CASE)
#undef CASE
#if IBYTES == 4
/* The same for tiles with a partial last vector, by their number of vectors; compiled in identical_masked_*.c. With
 * indices of 64 bits these tiles do not search for identical rows: they would double the time of compilation. */
extern void (*const NAME(identical_masked)[MAX_IDENTICAL_MASKED])(TILE_ARGUMENTS);
#endif
#endif
#define CASE(nv) KIND(nv, whole, WHOLE) KIND(nv, masked, MASKED)
TILE_CASES(CASE)
#undef CASE
#if WORDS == 1
KIND(1, joined, JOINED) /* rows of one vector are short: the run-time test costs 10 % */
#endif
#if WORDS == 1 && defined(V_SHIFTS)
#define CASE(nv) KIND(nv, shifted, SHIFTED)
SHIFT_CASES(CASE)
#undef CASE
#if IDENTICAL_TILES
#define CASE(nv) KIND_OF_IDENTICAL(nv, shifted, SHIFTED)
SHIFT_CASES(CASE)
#undef CASE
#endif

/* Compute the product with vectors aligned to B's cache lines; all rows of B begin `lead` reals into a line. */
static void NAME(spmm_shifted)(const asp_args *args, int64_t begin, int64_t end, int lead)
{
    static void (*const tiles[][2])(TILE_ARGUMENTS) = {
#define CASE(nv) {NAME(shifted_##nv), NAME(shifted_identical_##nv)},
        SHIFT_CASES(CASE)
#undef CASE
    };
    enum { MAX_VECTORS = SHIFT_MIN + (int)(sizeof tiles / sizeof *tiles) - 1 };
    int64_t first = 0;
    for (int64_t left = args->n_vecs / VL + 1; left > 0;) { /* vectors */
        const int64_t passes = (left + MAX_VECTORS - 1) / MAX_VECTORS, nv = (left + passes - 1) / passes;
        tiles[nv - SHIFT_MIN][args->has_identical_rows](args, begin, end, first * VL - lead, nv == left ? lead : VL, first ? 0 : lead);
        first += nv;
        left -= nv;
    }
}
#endif
#undef KIND
#undef KIND_OF_IDENTICAL

extern void NAME(spmm)(const asp_args *args, int64_t begin, int64_t end);
void NAME(spmm)(const asp_args *args, int64_t begin, int64_t end)
{
    typedef void (*tile)(TILE_ARGUMENTS);
#define CASE(nv) {NAME(whole_##nv), NAME(masked_##nv)},
    static const tile tiles[][1 + MASKED] = {TILE_CASES(CASE)};
#undef CASE
    const int64_t width = args->n_vecs * WORDS;
#if IDENTICAL_TILES
#define CASE(nv) NAME(whole_identical_##nv),
    static const tile identical_tiles[] = {TILE_CASES(CASE)};
#undef CASE
#endif
#if WORDS == 1
    const int64_t late = (int64_t)((uintptr_t)args->C % sizeof(V) / sizeof(R));
#endif
#if WORDS == 1 && defined(V_SHIFTS)
    const int64_t lead = (int64_t)((uintptr_t)args->B % sizeof(V) / sizeof(R));
    const int is_wide = !args->places || width >= SHIFT_APART_LINES * VL;
    const int is_alike = lead == late && args->ldc % VL == 0 && is_wide; /* cache lines of C and B end at the same columns */
    if (lead && width >= (SHIFT_MIN - 1) * VL && (width | args->ldb) % VL == 0 && (is_alike || !args->stream)) {
        NAME(spmm_shifted)(args, begin, end, (int)lead);
        if (args->stream) ASP_STREAM_END();
        return;
    }
#endif
    for (int64_t j = 0; j < width;) {
        const int64_t left = (width - j + VL - 1) / VL, passes = (left + TILE_MAX - 1) / TILE_MAX;
        int nv = (int)((left + passes - 1) / passes);
#if IDENTICAL_TILES && IBYTES == 4
        /* Two tiles of at least five vectors have the sums of one (SETS), and search for identical rows. */
        if (args->has_identical_rows && nv > MAX_IDENTICAL_MASKED && nv * VL > width - j) nv = (nv + 1) / 2;
#endif
        const int64_t covered = asp_min((int64_t)nv * VL, width - j);
        const int lanes = (int)(covered - (int64_t)(nv - 1) * VL);
        tile one = tiles[nv - 1][lanes < VL ? MASKED : WHOLE];
#if WORDS == 1
        const int follows = args->ldc == VL && !args->places;
        if (nv == 1 && lanes == VL && args->stream && late && follows && v_can_join(late)) one = NAME(joined_1);
#endif
#if IDENTICAL_TILES
        if (args->has_identical_rows && lanes == VL) one = identical_tiles[nv - 1];
#if IBYTES == 4
        else if (args->has_identical_rows && nv <= MAX_IDENTICAL_MASKED) one = NAME(identical_masked)[nv - 1];
#endif
#endif
        one(args, begin, end, j, lanes, 0);
        j += covered;
    }
    if (args->stream) ASP_STREAM_END();
}
#undef IDENTICAL_MAX
#undef IDENTICAL_TILES
#undef TILE_ARGUMENTS
#undef LOAD_PART
#undef SUMS
#undef SETS
