/* Row kernels of dots_any.c: a row of X against rows of Y, eight at a time, for any number of columns K. The columns
 * form n_full whole vectors and a last vector, which is loaded under a mask. The order of each sum depends on K alone. */

#if VBYTES > 16

#if IS_FLOAT
#define MASKED4(p, n) ((QUAD)_mm_maskload_ps(p, LANES4(n)))
#define PUT4(p, n, v) _mm_maskstore_ps(p, LANES4(n), (__m128)(v))
#define LANES4(n) _mm_loadu_si128((const __m128i *)(first_lanes + 8 - (n)))
#else
#define MASKED4(p, n) ((QUAD)_mm256_maskload_pd(p, LANES4(n)))
#define PUT4(p, n, v) _mm256_maskstore_pd(p, LANES4(n), (__m256d)(v))
#define LANES4(n) _mm256_cvtepi32_epi64(_mm_loadu_si128((const __m128i *)(first_lanes + 8 - (n))))
#endif

/* LAST(p): the last vector at p, whose first lanes are columns. */
#if VBYTES == 64 && IS_FLOAT
#define LAST(p) ((VEC)_mm512_maskz_loadu_ps((__mmask16)j->bits, p))
#elif VBYTES == 64
#define LAST(p) ((VEC)_mm512_maskz_loadu_pd((__mmask8)j->bits, p))
#elif IS_FLOAT
#define LAST(p) ((VEC)_mm256_maskload_ps(p, (__m256i)j->mask))
#else
#define LAST(p) ((VEC)_mm256_maskload_pd(p, (__m256i)j->mask))
#endif

/* Local copies of the operands, because a store through a vector pointer could change what `s` points to. */
typedef struct {
    const I *indices;
    const R *X, *Y, *in, *times;
    R *out, alpha, beta;
    const int32_t *rows, *places; /* rows of X and of results, as in g_sddmm */
    int64_t ldx, ldy;
    int64_t whole_end; /* four results may be stored before it, of which the last ones are stored again afterwards */
    g_ahead ahead;
    unsigned bits; /* lanes of the last vector that are columns */
    VINT mask;     /* the same */
} NAME(any_job);

/* Return the dot products of a row of X with the rows of Y of n <= 4 entries from q on, with 0 in the other lanes. Beyond
 * entry `last` they repeat its result. With is_short, x holds the vectors of the row of X, otherwise only its last one. */
ASP_TILE QUAD NAME(any_four)(const NAME(any_job) *j, const VEC *x, const R *mine, int64_t q, int64_t last, const int n,
                             const int64_t n_full, const int is_short)
{
    const R *y[4];
    VEC sum[4] = {{0}, {0}, {0}, {0}};
    for (int l = 0; l < n; ++l) y[l] = j->Y + (int64_t)j->indices[asp_min(q + l, last)] * j->ldy;
    for (int l = 0; l < n; ++l) sum[l] = x[is_short ? n_full : 0] * LAST(y[l] + n_full * W);
    if (is_short) {
        ASP_UNROLL for (int64_t v = 0; v < n_full; ++v)
            for (int l = 0; l < n; ++l) sum[l] += x[v] * LOAD(y[l] + v * W);
    } else {
        G_UNROLL_4 for (int64_t v = 0; v < n_full; ++v) {
            const VEC part = LOAD(mine + v * W);
            for (int l = 0; l < n; ++l) sum[l] += part * LOAD(y[l] + v * W);
        }
    }
    return NAME(fold4)(sum[0], sum[1], sum[2], sum[3]);
}

/* Store four results from `to` on. */
ASP_INLINE void NAME(any_store)(const NAME(any_job) *j, int64_t to, QUAD dots, int plain)
{
    if (!plain) dots *= j->alpha;
    if (!plain && j->in) dots += j->beta * LOAD4(j->in + to);
    if (plain || j->times) dots *= LOAD4(j->times + to);
    STORE4(j->out + to, dots);
}

/* Store n <= 4 results from `to` on. */
ASP_INLINE void NAME(any_store_some)(const NAME(any_job) *j, int64_t to, QUAD dots, int n, int plain)
{
    if (!plain) dots *= j->alpha;
    if (!plain && j->in) dots += j->beta * MASKED4(j->in + to, n);
    if (plain || j->times) dots *= MASKED4(j->times + to, n);
    if (to + 4 <= j->whole_end) STORE4(j->out + to, dots); /* a masked store takes 6 to 12 cycles on Zen 2 to Zen 4 */
    else PUT4(j->out + to, n, dots);
}

/* Prefetch the rows of Y of the entries [p, stop) moved by j->ahead.entries, as far as they are before `end`. */
ASP_INLINE void NAME(any_ask)(const NAME(any_job) *j, int64_t p, int64_t stop, int64_t end)
{
    const int64_t by = j->ahead.entries;
    for (int64_t q = p + by; q < asp_min(stop + by, end); ++q) {
        const char *y = (const char *)(j->Y + (int64_t)j->indices[q] * j->ldy);
        if (j->ahead.to_l2)
            for (int64_t at = 0; at < j->ahead.bytes; at += 64) __builtin_prefetch(y + at, 0, 2);
        else
            for (int64_t at = 0; at < j->ahead.bytes; at += 64) __builtin_prefetch(y + at);
    }
}

/* Compute the entries [p, end), which begin in or after `row`. A negative `known` means any number of whole vectors,
 * otherwise it is their number. With is_irregular, the last entries of a row are computed four at a time: a branch on
 * their number would be mispredicted. */
ASP_TILE void NAME(any_rows_of)(const g_sddmm *s, int64_t row, int64_t p, int64_t end, const int known, const int plain,
                                const int is_irregular)
{
    const I *indptr = s->indptr;
    I *indices_out = s->indices_out;
    const int64_t n_full = known < 0 ? (s->K - 1) / W : known, lanes = s->K - n_full * W;
    NAME(any_job) job = {.indices = s->indices, .X = s->X, .Y = s->Y, .in = s->in, .times = s->times, .out = s->out,
                         .alpha = (R)s->alpha, .beta = (R)s->beta, .rows = s->rows, .places = s->places, .ldx = s->ldx,
                         .ldy = s->ldy, .whole_end = s->places || s->in == s->out || s->times == s->out ? 0 : end,
                         .ahead = g_rows_ahead(s), .bits = (1u << lanes) - 1};
    const NAME(any_job) *const j = &job;
    for (int lane = 0; lane < W; ++lane) job.mask[lane] = lane < lanes ? -1 : 0;
    for (; p < end; ++row) {
        const int64_t stop = asp_min((int64_t)indptr[row + 1], end);
        if (stop <= p) continue;
        if (!plain && indices_out) memcpy(indices_out + p, j->indices + p, (size_t)(stop - p) * sizeof(I));
        const R *const mine = j->X + (j->rows ? j->rows[row] : row) * j->ldx;
        const int64_t shift = j->places ? j->places[p] - p : 0;
        VEC x[ANY_KNOWN + 1];
        for (int v = 0; v < known; ++v) x[v] = LOAD(mine + v * W);
        x[known < 0 ? 0 : known] = LAST(mine + n_full * W);
        for (; p + 8 <= stop; p += 8) {
            if (j->ahead.bytes) NAME(any_ask)(j, p, p + 8, end);
            const QUAD a = NAME(any_four)(j, x, mine, p, p + 3, 4, n_full, known >= 0);
            const QUAD b = NAME(any_four)(j, x, mine, p + 4, p + 7, 4, n_full, known >= 0);
            NAME(any_store)(j, p + shift, a, plain);
            NAME(any_store)(j, p + 4 + shift, b, plain);
        }
        if (p == stop) continue;
        if (j->ahead.bytes) NAME(any_ask)(j, p, stop, end);
        if (p + 4 + is_irregular <= stop) {
            NAME(any_store)(j, p + shift, NAME(any_four)(j, x, mine, p, p + 3, 4, n_full, known >= 0), plain);
            p += 4;
        }
        const int n = (int)(stop - p);
        QUAD rest = {0};
        if (!is_irregular && n == 0) continue;
        switch (is_irregular ? 4 : n) {
        case 1: rest = NAME(any_four)(j, x, mine, p, p, 1, n_full, known >= 0); break;
        case 2: rest = NAME(any_four)(j, x, mine, p, p + 1, 2, n_full, known >= 0); break;
        case 3: rest = NAME(any_four)(j, x, mine, p, p + 2, 3, n_full, known >= 0); break;
        default: rest = NAME(any_four)(j, x, mine, p, stop - 1, 4, n_full, known >= 0);
        }
        NAME(any_store_some)(j, p + shift, rest, n, plain);
        p = stop;
    }
}

/* ONE_*: loads and stores of a vector under a mask of its first n lanes, and gathers of Y by 32-bit indices. */
#if VBYTES == 64 && IS_FLOAT
#define ONE_MASK(n) ((__mmask16)((1u << (n)) - 1))
#define ONE_LOAD(p, m) ((VEC)_mm512_maskz_loadu_ps(m, p))
#define ONE_STORE(p, m, v) _mm512_mask_storeu_ps(p, m, (__m512)(v))
#define ONE_GATHER(p, m) \
    ((VEC)_mm512_mask_i32gather_ps(_mm512_setzero_ps(), m, _mm512_maskz_loadu_epi32(m, p), Y, 4))
#elif VBYTES == 64
#define ONE_MASK(n) ((__mmask8)((1u << (n)) - 1))
#define ONE_LOAD(p, m) ((VEC)_mm512_maskz_loadu_pd(m, p))
#define ONE_STORE(p, m, v) _mm512_mask_storeu_pd(p, m, (__m512d)(v))
#define ONE_GATHER(p, m) \
    ((VEC)_mm512_mask_i32gather_pd(_mm512_setzero_pd(), m, _mm256_maskz_loadu_epi32(m, p), Y, 8))
#elif IS_FLOAT
#define ONE_MASK(n) _mm256_loadu_si256((const __m256i *)(first_lanes + 8 - (n)))
#define ONE_LOAD(p, m) ((VEC)_mm256_maskload_ps(p, m))
#define ONE_STORE(p, m, v) _mm256_maskstore_ps(p, m, (__m256)(v))
#define ONE_GATHER(p, m)                                                                                   \
    ((VEC)_mm256_mask_i32gather_ps(_mm256_setzero_ps(), Y, _mm256_maskload_epi32((const int *)(p), m),     \
                                   _mm256_castsi256_ps(m), 4))
#else
#define ONE_MASK(n) LANES4(n)
#define ONE_LOAD(p, m) ((VEC)_mm256_maskload_pd(p, m))
#define ONE_STORE(p, m, v) _mm256_maskstore_pd(p, m, (__m256d)(v))
#define ONE_GATHER(p, m)                                                                                   \
    ((VEC)_mm256_mask_i32gather_pd(_mm256_setzero_pd(), Y,                                                 \
                                   _mm_maskload_epi32((const int *)(p), _mm256_castsi256_si128(            \
                                       _mm256_permutevar8x32_epi32(m, _mm256_setr_epi32(0, 2, 4, 6, 0, 2, 4, 6)))), \
                                   _mm256_castsi256_pd(m), 8))
#endif

/* Compute the entries [p, end) for one column, with 32-bit indices and values of Y next to each other. */
static ASP_NOINLINE void NAME(one_column)(const g_sddmm *s, int64_t row, int64_t p, int64_t end)
{
    const I *indptr = s->indptr, *indices = s->indices;
    const R *X = s->X, *Y = s->Y, *in = s->in, *times = s->times;
    R *out = s->out;
    const R alpha = (R)s->alpha, beta = (R)s->beta;
    if (s->indices_out) memcpy((I *)s->indices_out + p, indices + p, (size_t)(end - p) * sizeof(I));
    for (; p < end; ++row) {
        const int64_t stop = asp_min((int64_t)indptr[row + 1], end);
        if (stop <= p) continue;
        const R x = X[(s->rows ? s->rows[row] : row) * s->ldx];
        const int64_t shift = s->places ? s->places[p] - p : 0;
        for (; p < stop; p += W) {
            const int64_t to = p + shift, n = asp_min(W, stop - p);
            const __typeof__(ONE_MASK(n)) mask = ONE_MASK(n);
            VEC values = alpha * (x * ONE_GATHER(indices + p, mask));
            if (in) values += beta * ONE_LOAD(in + to, mask);
            if (times) values *= ONE_LOAD(times + to, mask);
            ONE_STORE(out + to, mask, values);
        }
        p = stop;
    }
}
#undef ONE_MASK
#undef ONE_LOAD
#undef ONE_STORE
#undef ONE_GATHER

#define G_ANY(name, known, is_irregular)                                                                         \
    static ASP_NOINLINE void NAME(name)(const g_sddmm *s, int64_t row, int64_t p, int64_t end)     \
    {                                                                                              \
        const int plain = s->times && !s->in && !s->indices_out && s->alpha == 1;                  \
        if (plain) NAME(any_rows_of)(s, row, p, end, known, 1, is_irregular);                                  \
        else NAME(any_rows_of)(s, row, p, end, known, 0, is_irregular);                                        \
    }
/* Rows of X of at most 64 bytes; with more work per entry, an entry computed in vain costs as much as a branch. */
G_ANY(irregular_0, 0, 1)
#if VBYTES == 32
G_ANY(irregular_1, 1, 1)
#endif
G_ANY(any_0, 0, 0)
G_ANY(any_1, 1, 0)
G_ANY(any_2, 2, 0)
G_ANY(any_3, 3, 0)
G_ANY(any_more, -1, 0)
#undef G_ANY

static void NAME(any_rows)(const g_sddmm *s, int64_t row, int64_t p, int64_t end)
{
    if (s->K == 1 && s->ldy == 1 && sizeof(I) == 4 && asp_gathers()) {
        NAME(one_column)(s, row, p, end);
        return;
    }
    const int64_t n_full = (s->K - 1) / W;
    const int is_short = s->K * (int64_t)sizeof(R) <= 64 && end - p >= SAMPLED_ENTRIES;
    if (is_short && asp_has_irregular_rows(s->itype, s->indptr, s->n_rows)) {
#if VBYTES == 32
        if (n_full == 1) {
            NAME(irregular_1)(s, row, p, end);
            return;
        }
#endif
        NAME(irregular_0)(s, row, p, end);
        return;
    }
    switch (n_full) {
    case 0: NAME(any_0)(s, row, p, end); return;
    case 1: NAME(any_1)(s, row, p, end); return;
    case 2: NAME(any_2)(s, row, p, end); return;
    case 3: NAME(any_3)(s, row, p, end); return;
    default: NAME(any_more)(s, row, p, end);
    }
}
#undef MASKED4
#undef PUT4
#undef LANES4
#undef LAST
#else
/* 16-byte vectors: not used. */
static void NAME(any_rows)(const g_sddmm *s, int64_t row, int64_t p, int64_t end)
{
    (void)s, (void)row, (void)p, (void)end;
}
#endif
