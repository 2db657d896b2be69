/* Tiles of C[i, :] = A[i] B for the rows [begin, end): a tile of C's row stays in registers while A's row is read once.
 *
 * Complex numbers are pairs of reals: one set of sums for the products with the real parts of A and one for the
 * imaginary parts, joined when the row is complete.
 */

/* Number of independent sets of sums of a tile of nv vectors: narrow tiles have too few sums to hide the latency of a
 * fused multiply-add. */
#if WORDS == 2
#define SETS(nv) 1
#else
#define SETS(nv) ((nv) == 1 ? 4 : (nv) <= 4 ? 2 : 1)
#endif

#if WORDS == 1 && defined(IDENTICAL_REGISTERS)
#define IDENTICAL_TILES 1
#else
#define IDENTICAL_TILES 0
#endif

/* Alignment of a tile's vectors. WHOLE: all vectors are whole. MASKED: the last one is partial. JOINED: one vector,
 * stored non-temporally across vector boundaries (tiles of several vectors test for this at run time). SHIFTED: the
 * first and the last are partial, because vectors are aligned to B's cache lines. NumPy's arrays begin 16 bytes into a
 * line, so unaligned whole vectors would need two L1 accesses each. */
#ifndef ASP_TILE_KINDS
#define ASP_TILE_KINDS
enum { WHOLE, MASKED, JOINED, SHIFTED };
#endif

typedef struct {
    VM front, back; /* lanes of the first and of the last vector that are columns */
} NAME(masks);

/* Load vector v of `nv` of a row of B or C at `b`. */
#define LOAD_PART(b, v)                                                              \
    (kind == SHIFTED && (v) == 0 ? v_loadm(b, masks.front)                           \
     : (kind == SHIFTED || kind == MASKED) && (v) == nv - 1 ? v_loadm((b) + (v) * VL, masks.back) \
                                                            : v_load((b) + (v) * VL))

/* Return the address of row `index` of B. It is computed once, because as part of each load's address it would cost an
 * operation each. */
ASP_INLINE const R *NAME(row_of)(const R *B, int64_t index, int64_t ldb)
{
    const R *row = B + index * ldb;
    ASP_PIN(row);
    return row;
}

/* Add a row of B times a value of A to the sums. */
#if WORDS == 2
#define SUMS sum, imaginary
ASP_INLINE void NAME(add_entry)(const int nv, const int kind, const R *b, const R *a, NAME(masks) masks, V *sum,
                                V *imaginary)
{
    const V real = v_set1(a[0]);
#else
#define SUMS sum
ASP_INLINE void NAME(add_entry)(const int nv, const int kind, const R *b, V real, NAME(masks) masks, V *sum)
{
#endif
    ASP_UNROLL for (int v = 0; v < nv; v++)
    {
        const V x = LOAD_PART(b, v);
        sum[v] = v_fma(real, x, sum[v]);
#if WORDS == 2
        imaginary[v] = v_fma(v_set1(a[1]), x, imaginary[v]);
#endif
    }
}

/* Prefetch a row of B into the L1 cache or, with FETCH_L2, only into the L2 cache. */
ASP_INLINE void NAME(fetch_row)(const int nv, const int kind, const int fetch, const R *b)
{
    ASP_UNROLL for (int v = 0; v < nv; v += (64 / RBYTES) / VL)
    {
        if (fetch == FETCH_L2) __builtin_prefetch((const char *)b + v * VL * RBYTES, 0, 2);
        else __builtin_prefetch((const char *)b + v * VL * RBYTES);
    }
    if (kind != SHIFTED && nv > 1) { /* the line that the row ends in, where it begins within a line */
        const char *last = (const char *)b + nv * VL * RBYTES - 1;
        if (fetch == FETCH_L2) __builtin_prefetch(last, 0, 2);
        else __builtin_prefetch(last);
    }
}

/* Add A[i] B for the nonzeros [k, stop) of one row to the sums; rows of B that are read `ahead` nonzeros later are
 * prefetched (`fetch` 0: none). With several sets of sums, the first receives their total. */
#if WORDS == 2
ASP_TILE void NAME(add_row)(const int nv, const int kind, const int fetch, const I *indices, const R *data,
                              int64_t ahead, int64_t k, int64_t stop, const R *B, int64_t ldb, NAME(masks) masks,
                              V *sum, V *imaginary)
#else
ASP_TILE void NAME(add_row)(const int nv, const int kind, const int fetch, const I *indices, const R *data,
                              int64_t ahead, int64_t k, int64_t stop, const R *B, int64_t ldb, NAME(masks) masks,
                              V *sum)
#endif
{
#if WORDS == 1
    const int sets = kind == SHIFTED ? SETS(nv - 1) : SETS(nv); /* the same sums wherever B begins */
    for (; sets > 1 && k + sets <= stop; k += sets) {
        V a[4];
        /* All values are loaded first: loading each right before its use is a third slower. */
        ASP_UNROLL for (int s = 0; s < sets; s++)
        {
            a[s] = v_set1(data[k + s]);
            ASP_PIN_VECTOR(a[s]);
        }
        ASP_UNROLL for (int s = 0; s < sets; s++)
        {
            if (fetch) NAME(fetch_row)(nv, kind, fetch, B + indices[k + s + ahead] * ldb);
            NAME(add_entry)(nv, kind, NAME(row_of)(B, indices[k + s], ldb), a[s], masks, sum + s * nv);
        }
    }
#endif
    for (; k < stop; k++) {
        if (fetch) NAME(fetch_row)(nv, kind, fetch, B + indices[k + ahead] * ldb);
#if WORDS == 2
        NAME(add_entry)(nv, kind, NAME(row_of)(B, indices[k], ldb), data + 2 * k, masks, SUMS);
#else
        NAME(add_entry)(nv, kind, NAME(row_of)(B, indices[k], ldb), v_set1(data[k]), masks, SUMS);
#endif
    }
#if WORDS == 1
    ASP_UNROLL for (int v = nv; v < nv * sets; v++) sum[v % nv] = sum[v % nv] + sum[v];
#endif
}

#include "spmm_stores_body.h"
#if IDENTICAL_TILES
#include "spmm_identical_rows_body.h"
#endif

/* Compute the tile of `nv` vectors from real column j on. Its last vector holds `lanes` columns (VL unless partial);
 * the first `lead` lanes of its first vector are no columns (0 unless shifted; j is the column of the first lane). */
ASP_TILE void NAME(tile)(const int nv, const int kind, const int has_identical_rows, const asp_args *args, int64_t begin,
                           int64_t end, int64_t j, int lanes, int lead)
{
    /* Local copies, because the compiler must assume that a store to C changes what args points at. */
    const I *indptr = args->indptr, *indices = args->indices;
    const R *data = args->data, *B = (const R *)args->B + j;
    const int accumulate = args->accumulate;
    R *C = (R *)args->C + j;
    const int64_t ldb = args->ldb * WORDS, ldc = args->ldc * WORDS, long_row = args->long_row_length;
    const int64_t prefetch = args->prefetch, prefetch_end = args->nnz - prefetch;
    const int way = args->fetch;
    const int32_t *const places = args->places;
    NAME(masks) masks;
    masks.back = v_mask(lanes);
#ifdef V_SHIFTS
    masks.front = (VM)~v_mask(lead);
#else
    (void)lead;
#endif
    (void)masks;
#if WORDS == 1
    const int width = kind == SHIFTED ? (nv - 1) * VL : nv * VL;
    NAME(joined) out = {.waiting = v_zero(), .late = (int)((uintptr_t)C % sizeof(V) / sizeof(R)), .follows = ldc == width && !places};
    out.joint = v_joint(out.late);
    const int has_whole = kind == MASKED && VL * RBYTES == 32; /* masked stores of 64 bytes are fast */
    const int64_t whole_end = has_whole ? asp_whole_end(args, end, (nv - 1) * VL + lanes, VL - lanes) : 0;
#ifdef V_SHIFTS
    /* The last vector is partial, and rows follow each other: they share lines, which are stored non-temporally, too. */
    const int shares_lines = kind == MASKED && nv > 1 && args->stream && !places && ldc == (nv - 1) * VL + lanes;
    /* Other tiles of rows that begin at different places within a line. */
    const int is_between = (kind == WHOLE || kind == MASKED) && nv >= APART_LINES && args->stream && ldc % VL && !shares_lines;
#endif
    const int streams = args->stream && ldc % VL == 0; /* all rows begin at the same place within a line */
    const int asks = kind == WHOLE && (nv > 1 || has_identical_rows);
    if (asks || (kind == MASKED && VL * RBYTES == 64)) ASP_PIN_MEMORY(out); /* used only with non-temporal stores */
    /* A cache line written partly by non-temporal and partly by ordinary stores takes three times as long. So where
     * vectors are half lines, only rows that follow each other are joined. */
    const int can_part = VL * RBYTES == 64 && nv >= APART_LINES;
    const int joins = kind == JOINED || (asks && streams && out.late && (out.follows || can_part) && v_can_join(out.late));
    const int stream = joins || (kind == WHOLE && streams && (uintptr_t)C % sizeof(V) == 0);
#endif
#if IDENTICAL_TILES
    V identical[IDENTICAL_ROWS][TILE_MAX + 1]; /* rows of C that are summed already, */
    int n_waiting = 0;             /* of which this many are not stored yet */
#else
    (void)has_identical_rows;
#endif
    for (int64_t i = begin; i < end; i++) {
        const int64_t k = indptr[i], stop = indptr[i + 1];
        R *const c = C + (places ? places[i] : i) * ldc;
        if (stop - k > long_row) {
            if (j <= 0) asp_note_long_row(args, i);
#if WORDS == 1
            if (joins) NAME(end_joined)(&out, c);
#ifdef V_SHIFTS
            if (kind == SHIFTED) NAME(end_shifted)(&out, c, masks);
            if (shares_lines) NAME(place)(&out, c), NAME(end_joined)(&out, c);
#endif
#endif
            continue;
        }
        V sum[TILE_MAX + 1];
        ASP_UNROLL for (int v = 0; v < TILE_MAX + 1; v++) sum[v] = v_zero();
#if WORDS == 2
        V imaginary[TILE_MAX];
        ASP_UNROLL for (int v = 0; v < nv; v++) imaginary[v] = v_zero();
#endif
#if IDENTICAL_TILES
        if (has_identical_rows && !n_waiting && i + IDENTICAL_ROWS <= end) {
            const int64_t n = ASP_IDENTICAL_ROWS_OF(I)(indptr, indices, i);
            if (n > 0 && n <= long_row) {
                const int fetch = prefetch && k + IDENTICAL_ROWS * n <= prefetch_end ? way : FETCH_NONE;
                if (fetch == FETCH_L2)
                    NAME(identical_rows)(nv, kind, FETCH_L2, indices, data, prefetch, k, n, B, ldb, masks, identical);
                else if (fetch)
                    NAME(identical_rows)(nv, kind, FETCH_L1, indices, data, prefetch, k, n, B, ldb, masks, identical);
                else NAME(identical_rows)(nv, kind, FETCH_NONE, indices, data, 0, k, n, B, ldb, masks, identical);
                n_waiting = IDENTICAL_ROWS;
            }
        }
        const int is_summed = n_waiting > 0;
        if (is_summed) {
            ASP_UNROLL for (int v = 0; v < nv; v++) sum[v] = identical[IDENTICAL_ROWS - n_waiting][v];
            n_waiting--;
        }
#else
        const int is_summed = 0;
#endif
        const int fetch = prefetch && stop <= prefetch_end ? way : FETCH_NONE;
        if (is_summed) {
            /* Summed with the identical rows before it. */
        } else if (fetch == FETCH_L2)
            NAME(add_row)(nv, kind, FETCH_L2, indices, data, prefetch, k, stop, B, ldb, masks, SUMS);
        else if (fetch)
            NAME(add_row)(nv, kind, FETCH_L1, indices, data, prefetch, k, stop, B, ldb, masks, SUMS);
        else NAME(add_row)(nv, kind, FETCH_NONE, indices, data, 0, k, stop, B, ldb, masks, SUMS);
#if WORDS == 2
        NAME(join)(c, nv, sum, imaginary, (nv - 1) * VL + lanes, accumulate);
#else
        if (accumulate) {
            const V one = v_set1(1);
            ASP_UNROLL for (int v = 0; v < nv; v++)
                sum[v] = v_fma(one, LOAD_PART(c, v), sum[v]);
        }
#ifdef V_SHIFTS
        if (kind == SHIFTED && args->stream) {
            NAME(stream_shifted)(nv, &out, c, masks, sum);
            continue;
        }
        if (shares_lines) {
            NAME(stream_partial)(nv, &out, c, sum, lanes);
            continue;
        }
        if (is_between) {
            NAME(stream_between)(nv, &out, c, sum, lanes);
            continue;
        }
#endif
        if (asks ? __builtin_expect(stream, 0) : stream) {
            if (joins && can_part && !out.follows) NAME(stream_apart)(nv, &out, c, sum);
            else if (joins) NAME(stream_joined)(nv, &out, c, sum);
            else
                ASP_UNROLL for (int v = 0; v < nv; v++) v_stream(c + v * VL, sum[v]);
            continue;
        }
        ASP_UNROLL for (int v = 0; v < nv; v++)
        {
            if (kind == SHIFTED && v == 0) v_storem(c, masks.front, sum[0]);
            else if ((kind == SHIFTED || kind == MASKED) && v == nv - 1 && i >= whole_end) v_storem(c + v * VL, masks.back, sum[v]);
            else v_store(c + v * VL, sum[v]);
        }
#endif
    }
#if WORDS == 1
    if (joins) NAME(end_joined)(&out, C + end * ldc);
#ifdef V_SHIFTS
    if (kind == SHIFTED) NAME(end_shifted)(&out, C + end * ldc, masks);
    if (shares_lines) NAME(place)(&out, C + end * ldc), NAME(end_joined)(&out, C + end * ldc);
#endif
#endif
}

#define TILE_ARGUMENTS const asp_args *args, int64_t begin, int64_t end, int64_t j, int lanes, int lead
