/* Block-row kernels. The sums of the r rows of a block row stay in registers while its blocks are added. So a row of B
 * is loaded once for r rows of A, and C is written once. */
#define BNAME(x) ASP_GLUE(ISA, TAG, blocks, x)

/* Prefetch nv vectors of a row of B. */
ASP_INLINE void BNAME(fetch)(const int nv, const R *b)
{
    ASP_UNROLL for (int v = 0; v < nv; v += (64 / RBYTES) / VL) __builtin_prefetch((const char *)b + v * VL * RBYTES);
    __builtin_prefetch((const char *)b + nv * VL * RBYTES - 1); /* last line, where the row begins within a line */
}

/* Load vector v of `nv` at b; with is_masked, the first and the last vector are loaded under their masks. */
#ifdef V_SHIFTS
#define FRONT(lead) ((VM)~v_mask(lead))
#define LOAD_EDGE(b, v)                                                                                    \
    (!is_masked             ? v_load((b) + (v) * VL)                                                       \
     : nv == 1              ? v_loadm((b), (VM)(front & back))                                             \
     : (v) == 0             ? v_loadm((b), front)                                                          \
     : (v) == nv - 1        ? v_loadm((b) + (v) * VL, back)                                                \
                            : v_load((b) + (v) * VL))
#define EDGE(v) (nv == 1 ? (VM)(front & back) : (v) == 0 ? front : back)
#define IS_EDGE(v) (is_masked && ((v) == 0 || (v) == nv - 1))
#else
#define FRONT(lead) v_mask(VL)
#define LOAD_EDGE(b, v) (is_masked && (v) == nv - 1 ? v_loadm((b) + (v) * VL, back) : v_load((b) + (v) * VL))
#define EDGE(v) back
#define IS_EDGE(v) (is_masked && (v) == nv - 1)
#endif

/* Compute `nv` vectors of columns from real j on. The first `lead` lanes of the first vector are not columns, and the
 * last vector holds `lanes` columns. *bad becomes nonzero if a result is not finite. */
ASP_TILE void BNAME(tile)(const int r, const int nv, const int is_masked, const asp_blocks_args *args, int64_t begin,
                          int64_t end, int64_t j, int lead, int lanes, V *bad)
{
    const int32_t *const pos = args->pos, *const crd = args->crd, *const places = args->places;
    const R *const vals = args->vals, *const B = (const R *)args->B + j;
    R *const C = (R *)args->C + j;
    const int64_t ldb = args->ldb, ldc = args->ldc, n_blocks = args->n_blocks;
    const int64_t ahead = args->ahead;
    const int adds = args->adds;
    const VM front = FRONT(lead), back = v_mask(lanes);
    (void)front, (void)back, (void)lead;
    for (int64_t g = begin; g < end; g++) {
        V sum[8 * BLOCK_MAX];
        ASP_UNROLL for (int s = 0; s < r * nv; s++) sum[s] = v_zero();
        for (int64_t b = pos[g]; b < pos[g + 1]; b++) {
            const int64_t later = b + ahead;
            const R *const a = vals + b * r, *const x = B + crd[b] * ldb;
            BNAME(fetch)(nv, B + crd[later < n_blocks ? later : b] * ldb);
            V row[BLOCK_MAX];
            ASP_UNROLL for (int v = 0; v < nv; v++) row[v] = LOAD_EDGE(x, v);
            ASP_UNROLL for (int i = 0; i < r; i++)
            {
                const V value = v_set1(a[i]);
                ASP_UNROLL for (int v = 0; v < nv; v++) sum[i * nv + v] = v_fma(value, row[v], sum[i * nv + v]);
            }
        }
        const int64_t n_own = asp_min(r, args->n_rows - g * r);
        ASP_UNROLL for (int i = 0; i < r; i++)
        {
            if (i >= n_own) break;
            R *const to = C + (places ? places[g * r + i] : g * r + i) * ldc;
            if (adds) {
                const V one = v_set1(1);
                ASP_UNROLL for (int v = 0; v < nv; v++) sum[i * nv + v] = v_fma(one, LOAD_EDGE(to, v), sum[i * nv + v]);
            }
            ASP_UNROLL for (int v = 0; v < nv; v++)
            {
                if (IS_EDGE(v)) v_storem(to + v * VL, EDGE(v), sum[i * nv + v]);
                else v_store(to + v * VL, sum[i * nv + v]);
                *bad = v_fma(sum[i * nv + v], v_zero(), *bad); /* stays zero while all results are finite */
            }
        }
    }
}

#define TILE_OF(r, nv, is_masked)                                                                                      \
    static ASP_NOINLINE void BNAME(tile_##r##_##nv##_##is_masked)(const asp_blocks_args *args, int64_t begin,         \
                                                                  int64_t end, int64_t j, int lead, int lanes, V *bad) \
    {                                                                                                                  \
        BNAME(tile)(r, nv, is_masked, args, begin, end, j, lead, lanes, bad);                                          \
    }
typedef void (*BNAME(a_tile))(const asp_blocks_args *, int64_t, int64_t, int64_t, int, int, V *);

#ifdef V_SHIFTS
/* Vectors begin at cache lines of B, because a vector that crosses a line needs two loads. Masks are free. */
#define BOTH_OF(r, nv) TILE_OF(r, nv, 1)
#define BOTH(r, nv) {BNAME(tile_##r##_##nv##_1), BNAME(tile_##r##_##nv##_1)},
#else
#define BOTH_OF(r, nv) TILE_OF(r, nv, 0) TILE_OF(r, nv, 1)
#define BOTH(r, nv) {BNAME(tile_##r##_##nv##_0), BNAME(tile_##r##_##nv##_1)},
#endif
#define ITEM_1(nv) BOTH_OF(1, nv)
#define ITEM_4(nv) BOTH_OF(4, nv)
#define ITEM_8(nv) BOTH_OF(8, nv)
BLOCK_CASES_1(ITEM_1)
BLOCK_CASES_4(ITEM_4)
BLOCK_CASES_8(ITEM_8)
#undef ITEM_1
#undef ITEM_4
#undef ITEM_8

/* Compute all columns in as few tiles as the registers allow, of nearly equal width. */
ASP_INLINE int BNAME(columns)(const BNAME(a_tile) tiles[][2], int64_t most, const asp_blocks_args *args, int64_t begin,
                              int64_t end)
{
    V bad = v_zero();
    int64_t lead = 0;
#ifdef V_SHIFTS
    if (args->ldb % VL == 0 && args->n_vecs >= 2 * VL) lead = (int64_t)((uintptr_t)args->B % sizeof(V) / sizeof(R));
#endif
    for (int64_t j = -lead; j < args->n_vecs;) {
        const int64_t left = (args->n_vecs - j + VL - 1) / VL, passes = (left + most - 1) / most;
        const int64_t nv = (left + passes - 1) / passes, lanes = asp_min(VL, args->n_vecs - j - (nv - 1) * VL);
        tiles[nv - 1][lanes < VL](args, begin, end, j, j < 0 ? (int)lead : 0, (int)lanes, &bad);
        j += nv * VL;
    }
    R lanes[VL];
    v_store(lanes, bad);
    int is_bad = 0;
    for (int lane = 0; lane < VL; lane++) is_bad |= lanes[lane] != 0;
    return is_bad;
}

#define ROWS_OF(r, CASES, ITEM)                                                                  \
    static int BNAME(rows_##r)(const asp_blocks_args *args, int64_t begin, int64_t end)          \
    {                                                                                            \
        static const BNAME(a_tile) tiles[][2] = {CASES(ITEM)};                                   \
        return BNAME(columns)(tiles, (int64_t)(sizeof tiles / sizeof *tiles), args, begin, end); \
    }
#define ITEM_1(nv) BOTH(1, nv)
#define ITEM_4(nv) BOTH(4, nv)
#define ITEM_8(nv) BOTH(8, nv)
ROWS_OF(1, BLOCK_CASES_1, ITEM_1)
ROWS_OF(4, BLOCK_CASES_4, ITEM_4)
ROWS_OF(8, BLOCK_CASES_8, ITEM_8)
#undef ITEM_1
#undef ITEM_4
#undef ITEM_8
#undef ROWS_OF
#undef BOTH
#undef BOTH_OF
#undef TILE_OF
#undef LOAD_EDGE
#undef EDGE
#undef IS_EDGE
#undef FRONT
#undef BNAME
