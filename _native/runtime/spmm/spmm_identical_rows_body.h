/* Tiles of IDENTICAL_ROWS identical rows at once (identical_rows.h): part of spmm_body.h. Each vector of B is loaded once for all of
 * them. Each row has the sums that it would have alone, so results do not depend on how rows are divided among
 * threads. */

/* Number of vectors per row that are summed at once so that the sums of IDENTICAL_ROWS rows fill the registers. */
#define IDENTICAL_MAX(sets) ((IDENTICAL_REGISTERS - IDENTICAL_ROWS - 1) / (IDENTICAL_ROWS * (sets)))

/* Add vectors [first, first + count) of a row of B times value k of each identical row to sum[r][set]. */
ASP_INLINE void NAME(add_identical_entry)(const int nv, const int kind, const int first, const int count, const int set,
                                     const R *b, const R *data, int64_t k, int64_t n, NAME(masks) masks,
                                     V (*sum)[IDENTICAL_MAX(1)])
{
    V a[IDENTICAL_ROWS];
    for (int r = 0; r < IDENTICAL_ROWS; r++) a[r] = v_set1(data[k + r * n]);
    ASP_UNROLL for (int v = 0; v < count; v++)
    {
        V x = LOAD_PART(b, first + v);
        ASP_PIN_VECTOR(x); /* keeps compilers from loading it again for each row */
        for (int r = 0; r < IDENTICAL_ROWS; r++) sum[r][set * count + v] = v_fma(a[r], x, sum[r][set * count + v]);
    }
}

/* Compute vectors [first, first + count) of the rows of C of identical rows, which begin at nonzero k and have n
 * nonzeros each. The sums are those that each row would have alone, with the same number of sets. */
ASP_TILE void NAME(add_identical_rows)(const int nv, const int kind, const int fetch, const int first, const int count,
                                const I *indices, const R *data, int64_t ahead, int64_t k, int64_t n, const R *B,
                                int64_t ldb, NAME(masks) masks, V (*sums)[TILE_MAX + 1])
{
    const int sets = SETS(kind == SHIFTED ? nv - 1 : nv), asks = fetch && first == 0;
    const int64_t stop = k + n;
    V sum[IDENTICAL_ROWS][IDENTICAL_MAX(1)];
    ahead += (IDENTICAL_ROWS - 1) * n;
    ASP_UNROLL for (int v = 0; v < count * sets; v++)
        for (int r = 0; r < IDENTICAL_ROWS; r++) sum[r][v] = v_zero();
    for (; k + sets <= stop; k += sets) {
        ASP_UNROLL for (int s = 0; s < sets; s++)
        {
            if (asks) NAME(fetch_row)(nv, kind, fetch, B + indices[k + s + ahead] * ldb);
            NAME(add_identical_entry)(nv, kind, first, count, s, NAME(row_of)(B, indices[k + s], ldb), data, k + s, n, masks, sum);
        }
    }
    for (; sets > 1 && k < stop; k++) {
        if (asks) NAME(fetch_row)(nv, kind, fetch, B + indices[k + ahead] * ldb);
        NAME(add_identical_entry)(nv, kind, first, count, 0, NAME(row_of)(B, indices[k], ldb), data, k, n, masks, sum);
    }
    ASP_UNROLL for (int v = 0; v < count; v++)
        for (int r = 0; r < IDENTICAL_ROWS; r++) {
            ASP_UNROLL for (int s = 1; s < sets; s++) sum[r][v] = sum[r][v] + sum[r][s * count + v];
            sums[r][first + v] = sum[r][v];
        }
}

/* Compute all vectors of the rows of C of identical rows, which begin at nonzero k and have n nonzeros each. */
ASP_TILE void NAME(identical_rows)(const int nv, const int kind, const int fetch, const I *indices, const R *data,
                                int64_t ahead, int64_t k, int64_t n, const R *B, int64_t ldb, NAME(masks) masks,
                                V (*sums)[TILE_MAX + 1])
{
    const int most = IDENTICAL_MAX(SETS(kind == SHIFTED ? nv - 1 : nv));
    const int parts = (nv + most - 1) / most, count = (nv + parts - 1) / parts;
    ASP_UNROLL for (int part = 0; part < parts; part++)
        NAME(add_identical_rows)(nv, kind, fetch, part * count, part < parts - 1 ? count : nv - part * count, indices, data, ahead, k,
                        n, B, ldb, masks, sums);
}
