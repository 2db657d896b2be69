/* Row kernels of dots_rows.c: one row of X against rows of Y, four at a time, with the row of X in registers.
 *
 * A row is divided into vectors from its beginning or, with `lined`, from the first value of a row of Y that begins a
 * cache line, `lead` values in. Then no load crosses a line, which would cost two accesses. The values before that one
 * and those left at the end then form one vector, from two loads.
 */

#if ASP_X86 && VBYTES == 64
#define G_LINED 1
#if IS_FLOAT
#define LOAD_BOTH(a, from_a, b) \
    ((VEC)_mm512_mask_loadu_ps(_mm512_maskz_loadu_ps((__mmask16)(from_a), a), (__mmask16)~(from_a), b))
#else
#define LOAD_BOTH(a, from_a, b) \
    ((VEC)_mm512_mask_loadu_pd(_mm512_maskz_loadu_pd((__mmask8)(from_a), a), (__mmask8)~(from_a), b))
#endif
#else
#define G_LINED 0
#define LOAD_BOTH(a, from_a, b) ((void)(from_a), LOAD(b)) /* never reached */
#endif

/* Return where the vectors of the row at p begin. ASP_PIN prevents compilers from adding `lead` to each vector's
 * address and keeping all these sums on the stack. */
ASP_INLINE const R *NAME(vectors)(const R *p, int64_t lead, int lined)
{
    if (!lined) return p;
    p += lead;
    ASP_PIN(p);
    return p;
}

/* Return vector v of the n_full vectors that begin at p. */
ASP_INLINE VEC NAME(part)(const R *p, int64_t v, int64_t n_full, int64_t lead, int lined)
{
    if (!lined || v < n_full - 1) return LOAD(p + v * W);
    return LOAD_BOTH(p + v * W, (1 << (W - lead)) - 1, p - W);
}

/* Return the n first values at p. */
ASP_INLINE QUAD NAME(first4)(const R *p, int n)
{
    QUAD q = {0};
    if (n == 4) return LOAD4(p);
    for (int l = 0; l < n; ++l) q[l] = p[l];
    return q;
}

#if G_LINED && IS_FLOAT
#define FOLD4(a, b, c, d) NAME(sums_of_4)(a, b, c, d)

/* Combine two vectors: lanes that stay (a blend) plus the others exchanged (a shuffle). */
ASP_INLINE VEC NAME(halves)(VEC a, VEC b)
{
    return (VEC)_mm512_mask_blend_ps(0xff00, (__m512)a, (__m512)b) +
           (VEC)_mm512_shuffle_f32x4((__m512)a, (__m512)b, 0x4e);
}

ASP_INLINE VEC NAME(quarters)(VEC a, VEC b)
{
    const __m512i cross = _mm512_setr_epi32(4, 5, 6, 7, 16, 17, 18, 19, 12, 13, 14, 15, 24, 25, 26, 27);
    return (VEC)_mm512_mask_blend_ps(0xf0f0, (__m512)a, (__m512)b) +
           (VEC)_mm512_permutex2var_ps((__m512)a, cross, (__m512)b);
}

ASP_INLINE QUAD NAME(sums_of_4)(VEC a, VEC b, VEC c, VEC d)
{
    const __m512i first = _mm512_setr_epi32(0, 4, 8, 12, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0);
    VEC all = NAME(quarters)(NAME(halves)(a, c), NAME(halves)(b, d));
    all += (VEC)_mm512_permute_ps((__m512)all, 0x4e);
    all += (VEC)_mm512_permute_ps((__m512)all, 0xb1);
    return (QUAD)_mm512_castps512_ps128(_mm512_permutexvar_ps(first, (__m512)all));
}

ASP_INLINE __m256 NAME(sums_of_8)(const VEC *v)
{
    const __m512i first = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 0, 0, 0, 0, 0, 0, 0, 0);
    VEC even = NAME(quarters)(NAME(halves)(v[0], v[4]), NAME(halves)(v[2], v[6]));
    VEC odd = NAME(quarters)(NAME(halves)(v[1], v[5]), NAME(halves)(v[3], v[7]));
    VEC all = (VEC)_mm512_mask_blend_ps(0xcccc, (__m512)even, (__m512)odd) +
              (VEC)_mm512_shuffle_ps((__m512)even, (__m512)odd, 0x4e);
    all += (VEC)_mm512_permute_ps((__m512)all, 0xb1);
    return _mm512_castps512_ps256(_mm512_permutexvar_ps(first, (__m512)all));
}
#else
#define FOLD4(a, b, c, d) NAME(fold4)(a, b, c, d)
#endif

/* Return whether the operation is SDDMM without further terms. Rows of up to eight vectors are too short for run-time
 * tests of these. */
#define IS_PLAIN(s) ((s)->times && !(s)->in && !(s)->indices_out && (s)->alpha == 1)

/* Baseline x86-64 has sixteen registers, too few for a row of sixteen vectors. */
#define HAS_WIDEST (VBYTES > 16 || !ASP_X86)

#define IS_SHORT(n_full) ((n_full) * W * (int64_t)sizeof(R) <= SHORT_BYTES)

/* Local copies of the operands, because a store through a vector pointer could change what `s` points to. */
typedef struct {
    const I *indices;
    const R *X, *Y, *in, *times;
    R *out, alpha, beta;
    const int32_t *rows, *places; /* rows of X and of results, as in g_sddmm */
    int64_t ldx, ldy, lead, ahead_bytes, ahead, to_l2;
    int64_t safe; /* entries of the matrix; 0: a row's last results are computed one by one */
} NAME(row_job);

/* Return the row of X for a row of the matrix, and the position of the result of the row's first entry. */
ASP_INLINE const R *NAME(x_of)(const NAME(row_job) *j, int64_t row)
{
    return j->X + (j->rows ? j->rows[row] : row) * j->ldx;
}

ASP_INLINE int64_t NAME(place_of)(const NAME(row_job) *j, int64_t p) { return j->places ? j->places[p] : p; }

/* Compute the results of entries p .. p + n, stored `shift` positions further on; n <= 4 and n_full are constants in
 * every caller. */
ASP_TILE void NAME(some)(const NAME(row_job) *j, const VEC *x, int64_t p, int64_t shift, int n, int64_t n_full,
                           int lined, int plain)
{
    const R *y[4];
    VEC sum[4];
    for (int l = 0; l < n; ++l)
        y[l] = NAME(vectors)(j->Y + (int64_t)j->indices[p + l] * j->ldy, j->lead, lined);
    /* Also without any product: additions have one order, whichever variant computes the row. */
    for (int l = 0; l < 4; ++l) sum[l] = (VEC){0};
    /* One after another, because the addresses of all would need registers, and the processor runs far enough ahead. */
    if (IS_SHORT(n_full))
        for (int l = 0; l < n; ++l)
            for (int64_t v = 0; v < n_full; ++v) sum[l] += x[v] * NAME(part)(y[l], v, n_full, j->lead, lined);
    else
        ASP_UNROLL
        for (int64_t v = 0; v < n_full; ++v)
            for (int l = 0; l < n; ++l) sum[l] += x[v] * NAME(part)(y[l], v, n_full, j->lead, lined);
    QUAD dots = FOLD4(sum[0], sum[1], sum[2], sum[3]);
    const int64_t to = p + shift;
    if (!plain) dots *= j->alpha;
    if (!plain && j->in) dots += j->beta * NAME(first4)(j->in + to, n);
    if (plain || j->times) dots *= NAME(first4)(j->times + to, n);
    if (n == 4) STORE4(j->out + to, dots);
    else
        for (int l = 0; l < n; ++l) j->out[to + l] = dots[l];
}

/* Prefetch a row into the L2 cache. */
ASP_INLINE void NAME(fetch)(const R *row, int64_t n_bytes)
{
    for (int64_t at = 0; at < n_bytes; at += LINE) __builtin_prefetch((const char *)row + at, 0, 2);
    __builtin_prefetch((const char *)row + n_bytes - 1, 0, 2); /* last line, where the row begins within a line */
}

/* Prefetch the rows of Y of n entries that are `ahead` entries behind p, unless p is beyond `last`. */
ASP_INLINE void NAME(ask)(const NAME(row_job) *j, int64_t p, int64_t last, int n)
{
    if (p > last) return;
    for (int l = 0; l < n; ++l) {
        const R *y = j->Y + (int64_t)j->indices[p + j->ahead + l] * j->ldy;
        if (j->to_l2) {
            NAME(fetch)(y, j->ahead_bytes);
            continue;
        }
        __builtin_prefetch(y);
        for (int64_t at = LINE; at < j->ahead_bytes; at += LINE) __builtin_prefetch((const char *)y + at);
        __builtin_prefetch((const char *)y + j->ahead_bytes - 1);
    }
}

#if G_LINED && IS_FLOAT
/* Compute n results of short rows, at most 8 (4 with `is_half`). Sums of eight take hardly longer than sums of four,
 * and computing a row's last results is faster than testing how many there are. The following entries of the matrix
 * are then computed too, and not stored. */
ASP_TILE void NAME(eight)(const NAME(row_job) *j, const VEC *x, int64_t p, int64_t shift, int64_t n, int64_t n_full,
                            int is_half, int plain)
{
    const __mmask8 kept = (__mmask8)((1 << n) - 1);
    const int64_t to = p + shift;
    const int at_once = is_half ? 4 : 8;
    const R *y[8];
    VEC sum[8];
    for (int l = 0; l < at_once; ++l) {
        y[l] = j->Y + (int64_t)j->indices[p + l] * j->ldy;
        sum[l] = (VEC){0};
        for (int64_t v = 0; IS_SHORT(n_full) && v < n_full; ++v) sum[l] += x[v] * LOAD(y[l] + v * W);
    }
    for (int64_t v = 0; !IS_SHORT(n_full) && v < n_full; ++v)
        for (int l = 0; l < at_once; ++l) sum[l] += x[v] * LOAD(y[l] + v * W);
    __m256 dots = is_half ? _mm256_castps128_ps256((__m128)NAME(sums_of_4)(sum[0], sum[1], sum[2], sum[3]))
                          : NAME(sums_of_8)(sum);
    if (!plain) dots = _mm256_mul_ps(dots, _mm256_set1_ps(j->alpha));
    if (!plain && j->in)
        dots = _mm256_fmadd_ps(_mm256_set1_ps(j->beta), _mm256_maskz_loadu_ps(kept, j->in + to), dots);
    if (plain || j->times) dots = _mm256_mul_ps(dots, _mm256_maskz_loadu_ps(kept, j->times + to));
    _mm256_mask_storeu_ps(j->out + to, kept, dots);
}
#endif

/* Compute the results of one row, entries [p, stop). */
ASP_TILE void NAME(one_row)(const NAME(row_job) *j, int64_t row, int64_t p, int64_t stop, int64_t last, int64_t n_full,
                              int lined, int plain)
{
    VEC x[MAX_VECTORS];
    const R *const mine = NAME(vectors)(NAME(x_of)(j, row), j->lead, lined);
    const int64_t shift = NAME(place_of)(j, p) - p;
    ASP_UNROLL
    for (int64_t v = 0; v < n_full; ++v) x[v] = NAME(part)(mine, v, n_full, j->lead, lined);
#if G_LINED && IS_FLOAT
    for (; n_full <= 4 && !lined && p + 8 <= stop; p += 8) {
        NAME(ask)(j, p, last, 8);
        NAME(eight)(j, x, p, shift, 8, n_full, 0, plain);
    }
    if (IS_SHORT(n_full) && p + 8 <= j->safe) {
        if (p < stop) NAME(ask)(j, p, last, (int)(stop - p));
        if (p + 4 < stop) NAME(eight)(j, x, p, shift, stop - p, n_full, 0, plain);
        else if (p < stop) NAME(eight)(j, x, p, shift, stop - p, n_full, 1, plain);
        return;
    }
#endif
    for (; p + 4 <= stop; p += 4) {
        NAME(ask)(j, p, last, 4);
        NAME(some)(j, x, p, shift, 4, n_full, lined, plain);
    }
    if (j->to_l2 && p < stop) NAME(ask)(j, p, last, (int)(stop - p));
    switch (stop - p) { /* computed together, so that their sums do not wait for each other */
    case 3: NAME(some)(j, x, p, shift, 3, n_full, lined, plain); break;
    case 2: NAME(some)(j, x, p, shift, 2, n_full, lined, plain); break;
    case 1: NAME(some)(j, x, p, shift, 1, n_full, lined, plain); break;
    default: break;
    }
}

/* Add vector v of IDENTICAL_ROWS rows of X times n rows of Y to the sums. */
ASP_INLINE void NAME(identical_step)(const NAME(row_job) *j, const R *const *x, const R *const *y, VEC (*sum)[4], int n,
                                int64_t v, int64_t n_full, int lined)
{
    VEC mine[IDENTICAL_ROWS];
    for (int r = 0; r < IDENTICAL_ROWS; ++r) mine[r] = NAME(part)(x[r], v, n_full, j->lead, lined);
    for (int l = 0; l < n; ++l) {
        VEC theirs = NAME(part)(y[l], v, n_full, j->lead, lined);
#if ASP_X86 && VBYTES > 16
        ASP_PIN_VECTOR(theirs); /* keeps compilers from loading it again for each row */
#endif
        for (int r = 0; r < IDENTICAL_ROWS; ++r) sum[r][l] += mine[r] * theirs;
    }
}

/* Compute n results of each of IDENTICAL_ROWS rows of X, at x[r], with identical columns: entries from p + at on, stored from
 * places[r] + at on. Each vector of a row of Y is loaded once for all rows; rows of X are read from the L1 cache. */
ASP_TILE void NAME(identical_some)(const NAME(row_job) *j, const R *const *x, int64_t p, const int64_t *places, int64_t at,
                                int n, int64_t n_full, int lined, int plain)
{
    const R *y[4];
    VEC sum[IDENTICAL_ROWS][4];
    for (int l = 0; l < n; ++l)
        y[l] = NAME(vectors)(j->Y + (int64_t)j->indices[p + at + l] * j->ldy, j->lead, lined);
    for (int r = 0; r < IDENTICAL_ROWS; ++r)
        for (int l = 0; l < 4; ++l) sum[r][l] = (VEC){0};
    for (int64_t v = 0; v < n_full - lined; ++v) NAME(identical_step)(j, x, y, sum, n, v, n_full, lined);
    if (lined) NAME(identical_step)(j, x, y, sum, n, n_full - 1, n_full, 1);
    for (int r = 0; r < IDENTICAL_ROWS; ++r) {
        QUAD dots = FOLD4(sum[r][0], sum[r][1], sum[r][2], sum[r][3]);
        const int64_t to = places[r] + at;
        if (!plain) dots *= j->alpha;
        if (!plain && j->in) dots += j->beta * NAME(first4)(j->in + to, n);
        if (plain || j->times) dots *= NAME(first4)(j->times + to, n);
        if (n == 4) STORE4(j->out + to, dots);
        else
            for (int l = 0; l < n; ++l) j->out[to + l] = dots[l];
    }
}

/* Compute IDENTICAL_ROWS rows from `row` on with n entries each, beginning at p; the following rows of X are prefetched. */
ASP_TILE void NAME(identical_rows)(const NAME(row_job) *j, int64_t row, int64_t n_rows, int64_t p, int64_t n, int64_t last,
                               int64_t n_full, int lined, int plain)
{
    const R *x[IDENTICAL_ROWS];
    int64_t begin[IDENTICAL_ROWS], at = 0;
    for (int r = 0; r < IDENTICAL_ROWS; ++r) x[r] = NAME(vectors)(NAME(x_of)(j, row + r), j->lead, lined), begin[r] = NAME(place_of)(j, p + r * n);
    for (int64_t r = row + IDENTICAL_ROWS; r < asp_min(row + 2 * IDENTICAL_ROWS, n_rows); ++r)
        NAME(fetch)(NAME(x_of)(j, r), n_full * W * (int64_t)sizeof(R));
    for (; at + 4 <= n; at += 4) {
        NAME(ask)(j, p + (IDENTICAL_ROWS - 1) * n + at, last, 4);
        NAME(identical_some)(j, x, p, begin, at, 4, n_full, lined, plain);
    }
    switch (n - at) {
    case 3: NAME(identical_some)(j, x, p, begin, at, 3, n_full, lined, plain); break;
    case 2: NAME(identical_some)(j, x, p, begin, at, 2, n_full, lined, plain); break;
    case 1: NAME(identical_some)(j, x, p, begin, at, 1, n_full, lined, plain); break;
    default: break;
    }
}

/* Compute the entries [p, end), which begin in or after `row`. */
ASP_TILE void NAME(all_rows)(const g_sddmm *s, int64_t row, int64_t p, int64_t end, int64_t n_full, int lined,
                              int plain)
{
    const I *indptr = s->indptr;
    I *indices_out = s->indices_out;
    const g_ahead ahead = g_rows_ahead(s);
    /* Last entry from which later rows are prefetched. */
    const int64_t last = ahead.bytes ? (ahead.to_l2 ? s->nnz : end) - ahead.entries - 8 : -1;
    const NAME(row_job) j = {.indices = s->indices, .X = s->X, .Y = s->Y, .in = s->in, .times = s->times, .out = s->out,
                             .alpha = (R)s->alpha, .beta = (R)s->beta, .ldx = s->ldx, .ldy = s->ldy,
                             .rows = s->rows, .places = s->places, .lead = lined ? g_lead(s) : 0, .ahead_bytes = ahead.bytes, .ahead = ahead.entries,
                             .to_l2 = ahead.to_l2, .safe = s->nnz < FEW_ENTRIES * s->n_rows ? 0 : s->nnz};
    for (; p < end; ++row) {
        const int64_t stop = asp_min((int64_t)indptr[row + 1], end);
        if (stop <= p) continue;
        if (!plain && indices_out) memcpy(indices_out + p, j.indices + p, (size_t)(stop - p) * sizeof(I));
        if (ahead.rows && row + ahead.rows < s->n_rows)
            NAME(fetch)(NAME(x_of)(&j, row + ahead.rows), s->K * (int64_t)sizeof(R));
        const int is_wide = n_full * W * (int64_t)sizeof(R) >= LONG_BYTES;
        if (is_wide && p == (int64_t)indptr[row] && row + IDENTICAL_ROWS <= s->n_rows && (int64_t)indptr[row + IDENTICAL_ROWS] <= end) {
            const int64_t n = ASP_IDENTICAL_ROWS_OF(I)(indptr, j.indices, row);
            if (n > 0) {
                if (!plain && indices_out)
                    memcpy(indices_out + stop, j.indices + stop, (size_t)((IDENTICAL_ROWS - 1) * n) * sizeof(I));
                NAME(identical_rows)(&j, row, s->n_rows, p, n, last, n_full, lined, plain);
                row += IDENTICAL_ROWS - 1;
                p += IDENTICAL_ROWS * n;
                continue;
            }
        }
        NAME(one_row)(&j, row, p, stop, last, n_full, lined, plain);
        p = stop;
    }
}

#define G_WIDTH(n, name, lined)                                                                                \
    static ASP_NOINLINE void NAME(name##n)(const g_sddmm *s, int64_t row, int64_t p, int64_t end)              \
    {                                                                                                          \
        if ((n) <= 8 && IS_PLAIN(s)) NAME(all_rows)(s, row, p, end, n, lined, 1);                              \
        else NAME(all_rows)(s, row, p, end, n, lined, 0);                                                      \
    }
G_WIDTH(1, rows_, 0)
G_WIDTH(2, rows_, 0)
G_WIDTH(4, rows_, 0)
G_WIDTH(8, rows_, 0)
#if HAS_WIDEST
G_WIDTH(16, rows_, 0)
#endif
#if G_LINED
G_WIDTH(4, lined_, 1)
G_WIDTH(8, lined_, 1)
G_WIDTH(16, lined_, 1)
#endif
#undef G_WIDTH

static void NAME(rows)(const g_sddmm *s, int64_t row, int64_t p, int64_t end)
{
#if G_LINED
    if (g_lead(s) > 0) {
        switch (s->K / W) {
        case 4: NAME(lined_4)(s, row, p, end); return;
        case 8: NAME(lined_8)(s, row, p, end); return;
        case 16: NAME(lined_16)(s, row, p, end); return;
        default: break;
        }
    }
#endif
    switch (s->K / W) {
    case 1: NAME(rows_1)(s, row, p, end); return;
    case 2: NAME(rows_2)(s, row, p, end); return;
    case 4: NAME(rows_4)(s, row, p, end); return;
#if HAS_WIDEST
    case 16: NAME(rows_16)(s, row, p, end); return;
#endif
    default: NAME(rows_8)(s, row, p, end);
    }
}
#undef FOLD4
#undef IS_PLAIN
#undef IS_SHORT
#undef HAS_WIDEST
#undef LOAD_BOTH
#undef G_LINED
