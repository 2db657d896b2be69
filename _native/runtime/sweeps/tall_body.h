/* Products of tall blocks on a range of rows (not guarded). R: the real type; N(x): a name of its own. */

/* W values that lie one after the other. Loops over them would not become vectors for every compiler. */
#define VECTOR(W) typedef R N(vec##W) __attribute__((vector_size(W * sizeof(R)), aligned(sizeof(R)), may_alias));
VECTOR(4)
VECTOR(8)
VECTOR(16)
#undef VECTOR
typedef R N(vec1);

/* G (a x b) += U^T V of `rows` rows: columns [i, i + WI) of U, and [j, j + WJ) of V. */
#define GRAM(WI, WJ)                                                                                         \
    ASP_INLINE void N(gram_##WI##_##WJ)(const R *u, const R *v, double *G, int64_t rows, int64_t a, int64_t b) \
    {                                                                                                        \
        N(vec##WJ) sums[WI] = {0};                                                                           \
        for (int64_t r = 0; r < rows; r++) {                                                                 \
            const N(vec##WJ) row = *(const N(vec##WJ) *)(v + r * b);                                         \
            ASP_UNROLL for (int i = 0; i < WI; i++) sums[i] += u[r * a + i] * row;                           \
        }                                                                                                    \
        for (int i = 0; i < WI; i++)                                                                         \
            for (int j = 0; j < WJ; j++) G[i * b + j] += (double)((const R *)&sums[i])[j];                   \
    }
GRAM(4, 8)
GRAM(4, 4)
GRAM(4, 1)
GRAM(1, 8)
GRAM(1, 4)
GRAM(1, 1)
#undef GRAM

static void N(gram)(const asp_tall *s, int64_t begin, int64_t rows, double *G)
{
    const int64_t a = s->a, k = s->k;
    const R *u = (const R *)s->U + begin * a, *v = (const R *)s->V + begin * k;
    for (int64_t i = 0; i < a;) {
        const int64_t wi = i + 4 <= a ? 4 : 1;
        for (int64_t j = 0; j < k;) {
            const int64_t wj = j + 8 <= k ? 8 : j + 4 <= k ? 4 : 1;
            double *to = G + i * k + j;
            if (wi == 4 && wj == 8) N(gram_4_8)(u + i, v + j, to, rows, a, k);
            else if (wi == 4 && wj == 4) N(gram_4_4)(u + i, v + j, to, rows, a, k);
            else if (wi == 4) N(gram_4_1)(u + i, v + j, to, rows, a, k);
            else if (wj == 8) N(gram_1_8)(u + i, v + j, to, rows, a, k);
            else if (wj == 4) N(gram_1_4)(u + i, v + j, to, rows, a, k);
            else N(gram_1_1)(u + i, v + j, to, rows, a, k);
            j += wj;
        }
        i += wi;
    }
}

/* Columns [j, j + W) of `rows` (at most TILE_ROWS) rows of the sum, to the tile `to` of k columns. */
#define PANEL(W)                                                                                               \
    ASP_INLINE void N(panel_##W)(const asp_tall *s, int64_t begin, int64_t rows, int64_t j, R *to)             \
    {                                                                                                          \
        N(vec##W) sums[TILE_ROWS];                                                                             \
        ASP_UNROLL for (int r = 0; r < TILE_ROWS; r++) sums[r] = (N(vec##W)){0};                               \
        for (int64_t t = 0; t < s->n_terms; t++) {                                                             \
            const int64_t w = s->widths[t];                                                                    \
            const R *x = (const R *)s->blocks[t] + begin * w, *f = (const R *)s->factors[t] + j;               \
            if (s->is_identity[t]) {                                                                           \
                for (int64_t r = 0; r < rows; r++) sums[r] += *(const N(vec##W) *)(x + r * w + j);             \
            } else if (rows == TILE_ROWS) {                                                                    \
                for (int64_t i = 0; i < w; i++) {                                                              \
                    const N(vec##W) row = *(const N(vec##W) *)(f + i * s->k);                                  \
                    ASP_UNROLL for (int r = 0; r < TILE_ROWS; r++) sums[r] += x[r * w + i] * row;              \
                }                                                                                              \
            } else {                                                                                           \
                for (int64_t i = 0; i < w; i++)                                                                \
                    for (int64_t r = 0; r < rows; r++) sums[r] += x[r * w + i] * *(const N(vec##W) *)(f + i * s->k); \
            }                                                                                                  \
        }                                                                                                      \
        for (int64_t r = 0; r < rows; r++) *(N(vec##W) *)(to + r * s->k + j) = sums[r];                        \
    }
PANEL(16)
PANEL(8)
PANEL(4)
PANEL(1)
#undef PANEL

static void N(combine)(const asp_tall *s, int64_t begin, int64_t rows)
{
    R tile[TILE_ROWS * MAX_COLUMNS];
    for (int64_t at = 0; at < rows; at += TILE_ROWS) {
        const int64_t here = asp_min(TILE_ROWS, rows - at), k = s->k;
        for (int64_t j = 0; j < k;) {
            if (j + 16 <= k) N(panel_16)(s, begin + at, here, j, tile), j += 16;
            else if (j + 8 <= k) N(panel_8)(s, begin + at, here, j, tile), j += 8;
            else if (j + 4 <= k) N(panel_4)(s, begin + at, here, j, tile), j += 4;
            else N(panel_1)(s, begin + at, here, j, tile), j += 1;
        }
        memcpy((R *)s->out + (begin + at) * k, tile, (size_t)(here * k) * sizeof(R));
    }
}

static void N(task)(void *context, int64_t begin, int64_t end)
{
    const asp_tall *s = context;
    for (int64_t at = begin; at < end; at++) {
        const int64_t first = at * CHUNK_ROWS, rows = asp_min(CHUNK_ROWS, s->n - first);
        if (s->sums) N(gram)(s, first, rows, s->sums + at * s->a * s->k);
        else N(combine)(s, first, rows);
    }
}

/* The factors in the real type. */
static void N(convert)(void *to, const double *from, int64_t count)
{
    for (int64_t i = 0; i < count; i++) ((R *)to)[i] = (R)from[i];
}
