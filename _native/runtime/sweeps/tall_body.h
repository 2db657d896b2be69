/* Products of tall blocks on a range of rows (not guarded). R: the real type; N(x): a name of its own. */

/* W values that lie one after the other. Loops over them would not become vectors for every compiler. */
#define VECTOR(W) typedef R N(vec##W) __attribute__((vector_size(W * sizeof(R)), aligned(sizeof(R)), may_alias));
VECTOR(4)
VECTOR(8)
VECTOR(16)
#undef VECTOR

/* G (a x b) += U^T V of `rows` rows: columns [i, i + WI) of U, and [j, j + count) of V, count <= WJ. Lanes from count on
 * hold values of the following row and are dropped: the caller makes sure that WJ values of each row may be read. */
#define GRAM(WI, WJ)                                                                                             \
    ASP_INLINE void N(gram_##WI##_##WJ)(const R *u, const R *v, double *G, int64_t rows, int64_t a, int64_t b,     \
                                        int64_t count)                                                           \
    {                                                                                                            \
        N(vec##WJ) sums[WI] = {0};                                                                               \
        for (int64_t r = 0; r < rows; r++) {                                                                     \
            const N(vec##WJ) row = *(const N(vec##WJ) *)(v + r * b);                                             \
            ASP_UNROLL for (int i = 0; i < WI; i++) sums[i] += u[r * a + i] * row;                               \
        }                                                                                                        \
        for (int i = 0; i < WI; i++)                                                                             \
            for (int64_t j = 0; j < count; j++) G[i * b + j] += (double)((const R *)&sums[i])[j];                \
    }
GRAM(8, 8)
GRAM(8, 4)
GRAM(4, 8)
GRAM(4, 4)
GRAM(2, 8)
GRAM(2, 4)
GRAM(1, 8)
GRAM(1, 4)
#undef GRAM

#define FOR_WIDTH(WI)                                                          \
    if (wj == 8) N(gram_##WI##_8)(u + i, v + j, to, rows, pair->a, k, count);  \
    else N(gram_##WI##_4)(u + i, v + j, to, rows, pair->a, k, count)

static void N(gram_rows)(const asp_tall_pair *pair, const R *u, const R *v, int64_t rows, double *G)
{
    const int64_t k = pair->b;
    for (int64_t i = 0, wi; i < pair->a; i += wi) {
        const int64_t left = pair->a - i;
        wi = left >= 8 ? 8 : left >= 4 ? 4 : left >= 2 ? 2 : 1;
        for (int64_t j = 0, wj; j < k; j += wj) {
            double *to = G + i * k + j;
            wj = k - j > 4 ? 8 : 4;
            const int64_t count = asp_min(wj, k - j);
            if (wi == 8) FOR_WIDTH(8);
            else if (wi == 4) FOR_WIDTH(4);
            else if (wi == 2) FOR_WIDTH(2);
            else FOR_WIDTH(1);
        }
    }
}
#undef FOR_WIDTH

/* The last rows of V, beyond which nothing may be read, go through a copy. */
static void N(gram)(const asp_tall *s, const asp_tall_pair *pair, int64_t begin, int64_t rows, double *G)
{
    const int64_t k = pair->b, first_tail = s->n - (6 + k) / k;
    const int64_t n_tail = asp_min(rows, asp_max(0, begin + rows - first_tail));
    const R *u = (const R *)pair->U + begin * pair->a, *v = (const R *)pair->V + begin * k;
    N(gram_rows)(pair, u, v, rows - n_tail, G);
    if (!n_tail) return;
    R tail[2 * MAX_COLUMNS + 16] = {0};
    memcpy(tail, v + (rows - n_tail) * k, (size_t)(n_tail * k) * sizeof(R));
    N(gram_rows)(pair, u + (rows - n_tail) * pair->a, tail, n_tail, G);
}

/* Columns [j, j + W) of `rows` (at most TILE_ROWS) rows of the sum, to the tile `to` of `padded` columns. */
#define PANEL(W)                                                                                               \
    ASP_INLINE N(vec##W) N(part_##W)(const R *x, int64_t count)                                                \
    {                                                                                                          \
        N(vec##W) part = {0};                                                                                  \
        memcpy(&part, x, (size_t)count * sizeof(R));                                                           \
        return part;                                                                                           \
    }                                                                                                          \
    ASP_INLINE void N(panel_##W)(const asp_tall *s, int64_t begin, int64_t rows, int64_t j, R *to)             \
    {                                                                                                          \
        N(vec##W) sums[TILE_ROWS];                                                                             \
        ASP_UNROLL for (int r = 0; r < TILE_ROWS; r++) sums[r] = (N(vec##W)){0};                               \
        for (int64_t t = 0; t < s->n_terms; t++) {                                                             \
            const int64_t w = s->widths[t];                                                                    \
            const R *x = (const R *)s->blocks[t] + begin * w, *f = (const R *)s->factors[t] + j;               \
            if (s->is_identity[t]) {                                                                           \
                for (int64_t r = 0; r < rows; r++)                                                             \
                    sums[r] += j + W <= w ? *(const N(vec##W) *)(x + r * w + j) : N(part_##W)(x + r * w + j, w - j); \
            } else if (rows == TILE_ROWS) {                                                                    \
                for (int64_t i = 0; i < w; i++) {                                                              \
                    const N(vec##W) row = *(const N(vec##W) *)(f + i * s->padded);                                  \
                    ASP_UNROLL for (int r = 0; r < TILE_ROWS; r++) sums[r] += x[r * w + i] * row;              \
                }                                                                                              \
            } else {                                                                                           \
                for (int64_t i = 0; i < w; i++)                                                                \
                    for (int64_t r = 0; r < rows; r++) sums[r] += x[r * w + i] * *(const N(vec##W) *)(f + i * s->padded); \
            }                                                                                                  \
        }                                                                                                      \
        for (int64_t r = 0; r < rows; r++) *(N(vec##W) *)(to + r * s->padded + j) = sums[r];                     \
    }
PANEL(16)
PANEL(8)
PANEL(4)
#undef PANEL

static void N(combine)(const asp_tall *s, int64_t begin, int64_t rows)
{
    R tile[TILE_ROWS * MAX_COLUMNS];
    const int64_t k = s->k;
    for (int64_t at = 0; at < rows; at += TILE_ROWS) {
        const int64_t here = asp_min(TILE_ROWS, rows - at);
        R *out = (R *)s->out + (begin + at) * k;
        for (int64_t j = 0, w; j < k; j += w) {
            w = panel_width(k - j);
            if (w == 16) N(panel_16)(s, begin + at, here, j, tile);
            else if (w == 8) N(panel_8)(s, begin + at, here, j, tile);
            else N(panel_4)(s, begin + at, here, j, tile);
        }
        if (s->padded == k) memcpy(out, tile, (size_t)(here * k) * sizeof(R));
        else
            for (int64_t r = 0; r < here; r++) memcpy(out + r * k, tile + r * s->padded, (size_t)k * sizeof(R));
    }
}

static void N(task)(void *context, int64_t begin, int64_t end)
{
    const asp_tall *s = context;
    for (int64_t at = begin; at < end; at++) {
        const int64_t first = at * CHUNK_ROWS, rows = asp_min(CHUNK_ROWS, s->n - first);
        if (!s->sums) N(combine)(s, first, rows);
        else
            for (int64_t i = 0; i < s->n_pairs; i++)
                N(gram)(s, &s->pairs[i], first, rows, s->sums + at * s->size + s->pairs[i].at);
    }
}

/* A factor (rows, k) in the real type, with zeros between k and `padded`. */
static void N(convert)(void *to, const double *from, int64_t rows, int64_t k, int64_t padded)
{
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < padded; j++) ((R *)to)[i * padded + j] = j < k ? (R)from[i * k + j] : 0;
}
