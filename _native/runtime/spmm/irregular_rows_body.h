/* The kernel of irregular_rows.h for one real type R and one index type I. */

/* Add entry `at` of a row to `sum` if `is_there` is 1, reading entry `last` in its place if it is 0. */
ASP_INLINE V NAME(add_if)(const int is_masked, VM lanes, int is_there, int64_t at, int64_t last, const I *indices,
                          const R *data, const R *B, int64_t ldb, V sum)
{
    const int64_t place = __builtin_constant_p(is_there) || at < last ? at : last;
    const R *b = B + indices[place] * ldb;
    const V x = is_masked ? v_loadm(b, lanes) : v_load(b);
    return KEEP(is_there, sum, v_fma(v_set1(data[place]), x, sum));
}

ASP_INLINE void NAME(irregular_rows)(const int is_masked, const asp_args *args, int64_t begin, int64_t end)
{
    const I *indptr = args->indptr, *indices = args->indices;
    const R *data = args->data, *B = args->B;
    R *C = args->C;
    const int64_t ldb = args->ldb, ldc = args->ldc, long_row = args->long_row_length;
    const int accumulate = args->accumulate;
    const int32_t *const places = args->places;
    const VM lanes = v_mask(is_masked ? args->n_vecs : 0);
    const int64_t whole_end = is_masked ? asp_whole_end(args, end, args->n_vecs, VL - args->n_vecs) : end;
    for (int64_t i = begin; i < end; i++) {
        int64_t k = indptr[i];
        const int64_t stop = indptr[i + 1], last = stop - 1;
        R *const c = C + (places ? places[i] : i) * ldc;
        if (stop - k > long_row) {
            asp_note_long_row(args, i);
            continue;
        }
        V sum[SETS] = {v_zero(), v_zero(), v_zero(), v_zero()};
        if (stop > k) {
            const int has_set = stop - k >= SETS, rest = (int)((stop - k) & (SETS - 1));
            if (stop - k <= SHORT_ROW) {
                ASP_UNROLL for (int s = 0; s < SETS; s++)
                    sum[s] = NAME(add_if)(is_masked, lanes, has_set, k + s, last, indices, data, B, ldb, sum[s]);
                k += has_set ? SETS : 0;
            } else {
                for (; k + SETS <= stop; k += SETS)
                    ASP_UNROLL for (int s = 0; s < SETS; s++)
                        sum[s] = NAME(add_if)(is_masked, lanes, 1, k + s, last, indices, data, B, ldb, sum[s]);
            }
            ASP_UNROLL for (int s = 0; s < SETS - 1; s++)
                sum[0] = NAME(add_if)(is_masked, lanes, s < rest, k + s, last, indices, data, B, ldb, sum[0]);
        }
        V total = sum[0];
        ASP_UNROLL for (int s = 1; s < SETS; s++) total = total + sum[s];
        if (accumulate) total = v_fma(v_set1(1), is_masked ? v_loadm(c, lanes) : v_load(c), total);
        if (i >= whole_end) v_storem(c, lanes, total);
        else v_store(c, total);
    }
}

/* Compute rows. Non-temporal stores and prefetching are for large operands, whose time is not that of branches. */
static void NAME(irregular)(const asp_args *args, int64_t begin, int64_t end)
{
    if (args->stream || args->prefetch)
        asp_kernels_for(RBYTES == 8 ? ASP_F64 : ASP_F32, sizeof(I) == 8, args->n_vecs * RBYTES)->spmm(args, begin, end);
    else if (args->n_vecs == VL) NAME(irregular_rows)(0, args, begin, end);
    else NAME(irregular_rows)(1, args, begin, end);
}
