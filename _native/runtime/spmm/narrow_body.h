/* C[i, :] = A[i] B for rows of B that fit a vector of 16 or 32 bytes, for a number of columns known at compile time.
 * Four entries are computed at a time, with a sum each, in the order of spmm_tile_body.h: results are the same. */

/* P: vector of a row of B; PUT and GET access the columns alone. */
#if COLUMNS * RBYTES <= 16 && RBYTES == 4
#define P __m128
#define O(op) _mm_##op##_ps
#define MASKED(op) _mm_##op##_ps
#elif COLUMNS * RBYTES <= 16
#define P __m128d
#define O(op) _mm_##op##_pd
#elif RBYTES == 4
#define P __m256
#define O(op) _mm256_##op##_ps
#define MASKED(op) _mm256_##op##_ps
#else
#define P __m256d
#define O(op) _mm256_##op##_pd
#define MASKED(op) _mm256_##op##_pd
#endif
#if COLUMNS * RBYTES == 16
#define GET(p) O(loadu)(p)
#define PUT(p, x) O(storeu)(p, x)
#elif COLUMNS * RBYTES == 8
#define GET(p) _mm_castpd_ps(_mm_load_sd((const double *)(p)))
#define PUT(p, x) _mm_store_sd((double *)(p), _mm_castps_pd(x))
#elif defined(HAS_LANE_MASKS)
#define GET(p) MASKED(maskz_loadu)((1u << COLUMNS) - 1, p)
#define PUT(p, x) MASKED(mask_storeu)(p, (1u << COLUMNS) - 1, x)
#elif COLUMNS * RBYTES < 16
#define GET(p) MASKED(maskload)(p, _mm_loadu_si128((const __m128i *)(narrow_lanes + 8 - COLUMNS * (RBYTES / 4))))
#define PUT(p, x) MASKED(maskstore)(p, _mm_loadu_si128((const __m128i *)(narrow_lanes + 8 - COLUMNS * (RBYTES / 4))), x)
#else
#define GET(p) MASKED(maskload)(p, _mm256_loadu_si256((const __m256i *)(narrow_lanes + 8 - COLUMNS * (RBYTES / 4))))
#define PUT(p, x) MASKED(maskstore)(p, _mm256_loadu_si256((const __m256i *)(narrow_lanes + 8 - COLUMNS * (RBYTES / 4))), x)
#endif

#define NNAME(x) NARROW_NAME(ISA, TAG, ITAG, COLUMNS, x)

static void NNAME(narrow)(const asp_args *args, int64_t begin, int64_t end)
{
    const I *indptr = args->indptr, *indices = args->indices;
    const R *data = args->data, *B = args->B;
    R *C = args->C;
    const int64_t ldb = args->ldb, ldc = args->ldc, long_row = args->long_row_length;
    const int64_t ahead = args->prefetch, fetch_end = ahead ? args->nnz - ahead : 0;
    const int32_t *const places = args->places;
    const int accumulate = args->accumulate;
    for (int64_t i = begin; i < end; i++) {
        int64_t k = indptr[i];
        const int64_t stop = indptr[i + 1];
        R *const c = C + (places ? places[i] : i) * ldc;
        if (stop - k > long_row) {
            asp_note_long_row(args, i);
            continue;
        }
        const int fetch = ahead && stop <= fetch_end;
        P sum[4];
        ASP_UNROLL for (int s = 0; s < 4; s++) sum[s] = O(setzero)();
        for (; k + 4 <= stop; k += 4)
            ASP_UNROLL for (int s = 0; s < 4; s++)
            {
                if (fetch) __builtin_prefetch(B + indices[k + s + ahead] * ldb);
                sum[s] = O(fmadd)(O(set1)(data[k + s]), GET(B + indices[k + s] * ldb), sum[s]);
            }
        for (; k < stop; k++) {
            if (fetch) __builtin_prefetch(B + indices[k + ahead] * ldb);
            sum[0] = O(fmadd)(O(set1)(data[k]), GET(B + indices[k] * ldb), sum[0]);
        }
        P total = O(add)(O(add)(O(add)(sum[0], sum[1]), sum[2]), sum[3]);
        if (accumulate) total = O(add)(GET(c), total);
        PUT(c, total);
    }
}
#undef P
#undef O
#undef MASKED
#undef GET
#undef PUT
#undef NNAME
