/* The kernel of two_columns.c for one index type I; INDICES loads eight indices under a mask. */
#define NNAME_(a, b) a##_##b
#define NNAME__(a, b) NNAME_(a, b)
#define NNAME(x) NNAME__(x, ITAG)

/* Return n <= ENTRIES rows of B. */
ASP_INLINE __m512 NNAME(fetched)(const int gathers, const I *indices, int64_t n, const float *B, int32_t ldb)
{
    const __mmask8 entries = (__mmask8)((1u << n) - 1);
    const __m256i at = _mm256_mullo_epi32(INDICES(entries, indices), _mm256_set1_epi32(ldb));
    return _mm512_castpd_ps(asp_rows_of(gathers, entries, at, B));
}

/* Add the products of n <= ENTRIES values and `rows` of B to `wide`. */
ASP_INLINE __m512 NNAME(added)(const float *data, int64_t n, __m512 rows, __m512 wide)
{
    const __m512i each = _mm512_setr_epi32(0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7);
    const __m512 values = _mm512_castps256_ps512(_mm256_maskz_loadu_ps((__mmask8)((1u << n) - 1), data));
    return _mm512_fmadd_ps(_mm512_permutexvar_ps(each, values), rows, wide);
}

/* Add the products of n <= ENTRIES values and rows of B to `wide`. */
ASP_INLINE __m512 NNAME(gathered)(const int gathers, const float *data, const I *indices, int64_t n, const float *B,
                                  int32_t ldb, __m512 wide)
{
    return NNAME(added)(data, n, NNAME(fetched)(gathers, indices, n, B, ldb), wide);
}

/* Return the sum of the rows in `wide`, in the two low lanes. */
ASP_INLINE __m128 NNAME(folded)(__m512 wide)
{
    const __m256 half = _mm256_add_ps(_mm512_castps512_ps256(wide), _mm512_extractf32x8_ps(wide, 1));
    const __m128 quarter = _mm_add_ps(_mm256_castps256_ps128(half), _mm256_extractf128_ps(half, 1));
    return _mm_add_ps(quarter, _mm_movehl_ps(quarter, quarter));
}

/* Store the sum of the rows in `wide` at c, two columns at any multiple of 4 bytes. */
ASP_INLINE void NNAME(store)(__m512 wide, __m64 *c, int accumulate)
{
    __m128 total = NNAME(folded)(wide);
    if (accumulate) total = _mm_add_ps(_mm_loadl_pi(_mm_setzero_ps(), c), total);
    _mm_storel_pi(c, total);
}

/* Compute IDENTICAL_ROWS rows of n entries each with the same columns, from row i on: rows of B are loaded once for all. */
ASP_INLINE void NNAME(identical)(const int gathers, const asp_args *args, int64_t i, int64_t n)
{
    const I *indices = (const I *)args->indices + ((const I *)args->indptr)[i];
    const float *data = (const float *)args->data + ((const I *)args->indptr)[i];
    __m512 wide[IDENTICAL_ROWS];
    for (int r = 0; r < IDENTICAL_ROWS; r++) wide[r] = _mm512_setzero_ps();
    for (int64_t k = 0; k < n; k += ENTRIES) {
        const int64_t some = asp_min(ENTRIES, n - k);
        const __m512 rows = NNAME(fetched)(gathers, indices + k, some, args->B, (int32_t)args->ldb);
        for (int r = 0; r < IDENTICAL_ROWS; r++) wide[r] = NNAME(added)(data + r * n + k, some, rows, wide[r]);
    }
    for (int r = 0; r < IDENTICAL_ROWS; r++) {
        const int64_t row = args->places ? args->places[i + r] : i + r;
        NNAME(store)(wide[r], (__m64 *)((float *)args->C + row * args->ldc), args->accumulate);
    }
}

/* Compute rows; `shares`: search for identical rows. */
ASP_INLINE void NNAME(rows)(const int gathers, const int shares, const asp_args *args, int64_t begin, int64_t end)
{
    const I *indptr = args->indptr, *indices = args->indices;
    const float *data = args->data, *B = args->B;
    float *C = args->C;
    const int64_t ldc = args->ldc, long_row = args->long_row_length;
    const int32_t ldb = (int32_t)args->ldb, *const places = args->places;
    const int accumulate = args->accumulate;
    for (int64_t i = begin; i < end; i++) {
        int64_t k = indptr[i];
        const int64_t stop = indptr[i + 1];
        if (shares && i + IDENTICAL_ROWS <= end) {
            const int64_t n = ASP_IDENTICAL_ROWS_OF(I)(indptr, indices, i);
            if (n > 0 && n <= long_row) {
                NNAME(identical)(gathers, args, i, n);
                i += IDENTICAL_ROWS - 1;
                continue;
            }
        }
        if (stop - k > long_row) {
            asp_note_long_row(args, i);
            continue;
        }
        __m512 wide = _mm512_setzero_ps();
        for (; k + ENTRIES < stop; k += ENTRIES)
            wide = NNAME(gathered)(gathers, data + k, indices + k, ENTRIES, B, ldb, wide);
        wide = NNAME(gathered)(gathers, data + k, indices + k, stop - k, B, ldb, wide);
        NNAME(store)(wide, (__m64 *)(C + (places ? places[i] : i) * ldc), accumulate);
    }
}

/* Return whether each of the RUN rows from `indptr` on has one entry. */
ASP_INLINE int NNAME(are_single)(const I *indptr)
{
    int n_other = 0;
    if (indptr[RUN] - indptr[0] != RUN) return 0;
    for (int r = 0; r < RUN; r++) n_other += indptr[r + 1] - indptr[r] != 1;
    return n_other == 0;
}

/* Compute rows. Of RUN rows of one entry each, ENTRIES are computed at once, with the bits of single rows. */
ASP_INLINE void NNAME(runs)(const int gathers, const asp_args *args, int64_t begin, int64_t end)
{
    const I *indptr = args->indptr, *indices = args->indices;
    const float *data = args->data;
    for (int64_t i = begin, other; i < end; i = other) {
        for (; i + RUN <= end && NNAME(are_single)(indptr + i); i += RUN)
            for (int64_t r = 0; r < RUN; r += ENTRIES) {
                const int64_t k = indptr[i] + r;
                _mm512_storeu_ps((float *)args->C + 2 * (i + r),
                                 NNAME(gathered)(gathers, data + k, indices + k, ENTRIES, args->B, (int32_t)args->ldb,
                                                 _mm512_setzero_ps()));
            }
        for (other = i; other < end && !(other + RUN <= end && NNAME(are_single)(indptr + other));)
            other = asp_min(other + RUN, end);
        NNAME(rows)(gathers, 0, args, i, other);
    }
}

/* Compute rows of which most are empty: C is cleared, and the other rows are listed without branches. */
ASP_INLINE void NNAME(listed)(const int gathers, const asp_args *args, int64_t begin, int64_t end)
{
    const I *indptr = args->indptr;
    int64_t listed[RUN];
    memset((float *)args->C + 2 * begin, 0, (size_t)(2 * (end - begin)) * sizeof(float));
    for (int64_t stop; begin < end; begin = stop) {
        int64_t n_listed = 0;
        stop = asp_min(begin + RUN, end);
        for (int64_t i = begin; i < stop; i++) {
            listed[n_listed] = i;
            n_listed += indptr[i + 1] != indptr[i];
        }
        for (int64_t r = 0; r < n_listed; r++) NNAME(rows)(gathers, 0, args, listed[r], listed[r] + 1);
    }
}

static void NNAME(two_columns)(const asp_args *args, int64_t begin, int64_t end)
{
    const int are_in_reach = args->n_cols * args->ldb <= INT32_MAX; /* offsets of 32 bits reach all rows of B */
    const int are_adjacent = args->ldc == 2 && !args->places && !args->accumulate;
    const int is_listed = are_adjacent && end - begin >= RUN && 4 * args->nnz <= 3 * args->n_rows;
    if (!are_in_reach) asp_kernels_for(ASP_F32, sizeof(I) == 8, INT64_MAX)->spmm(args, begin, end);
    else if (args->has_identical_rows && asp_gathers()) NNAME(rows)(1, 1, args, begin, end);
    else if (args->has_identical_rows) NNAME(rows)(0, 1, args, begin, end);
    else if (is_listed && asp_gathers()) NNAME(listed)(1, args, begin, end);
    else if (is_listed) NNAME(listed)(0, args, begin, end);
    else if (are_adjacent && asp_gathers()) NNAME(runs)(1, args, begin, end);
    else if (are_adjacent) NNAME(runs)(0, args, begin, end);
    else if (asp_gathers()) NNAME(rows)(1, 0, args, begin, end);
    else NNAME(rows)(0, 0, args, begin, end);
}
#undef NNAME_
#undef NNAME__
#undef NNAME
