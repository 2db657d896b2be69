/* Taylor terms on the chunks [begin, end) (no include guard). R: the real type; N(x): a unique name; PARTS: 2 for
 * complex values, else 1. */

/* Return the absolute value of element `at`. */
ASP_INLINE double N(size)(const R *u, int64_t at)
{
#if PARTS == 1
    return (double)(u[at] < 0 ? -u[at] : u[at]);
#else
    const double x = u[2 * at], y = u[2 * at + 1], s = sqrt(x * x + y * y);
    return s < 1e150 && s > 1e-150 ? s : hypot(x, y);
#endif
}

/* Return the largest sum of a row's absolute values; nan is kept. */
static double N(norm)(const R *u, int64_t rows, int64_t k)
{
    enum { LANES = 32 };
    double most[LANES] = {0};
    for (int64_t r = 0; r < rows; r += LANES) {
        const int64_t m = asp_min(LANES, rows - r);
        double sums[LANES] = {0};
        if (k == 1) {
            ASP_IVDEP for (int64_t i = 0; i < m; i++) sums[i] = N(size)(u, r + i);
        } else {
            for (int64_t i = 0; i < m; i++) {
                double sum = 0;
                for (int64_t j = 0; j < k; j++) sum += N(size)(u, (r + i) * k + j);
                sums[i] = sum;
            }
        }
        ASP_IVDEP for (int64_t i = 0; i < LANES; i++)
            most[i] = !(sums[i] > most[i]) && sums[i] == sums[i] ? most[i] : sums[i];
    }
    double found = 0;
    for (int64_t i = 0; i < LANES; i++) found = asp_larger(found, most[i]);
    return found;
}

/* Compute the term, add it to F and compute both norms, for `rows` rows. */
static void N(step)(const asp_taylor *s, int64_t begin, int64_t rows, double *norms)
{
    R *q = (R *)s->Q + PARTS * begin * s->k, *f = (R *)s->F + PARTS * begin * s->k;
    const R *b = (const R *)s->B + PARTS * begin * s->k, scale = (R)s->scale, re = (R)s->shift[0];
    const int64_t count = rows * s->k;
#if PARTS == 1
    ASP_IVDEP for (int64_t i = 0; i < count; i++) {
        q[i] = scale * (q[i] - re * b[i]);
        f[i] += q[i];
    }
#else
    const R im = (R)s->shift[1];
    ASP_IVDEP for (int64_t i = 0; i < count; i++) {
        const R x = scale * (q[2 * i] - (re * b[2 * i] - im * b[2 * i + 1]));
        const R y = scale * (q[2 * i + 1] - (re * b[2 * i + 1] + im * b[2 * i]));
        q[2 * i] = x;
        q[2 * i + 1] = y;
        f[2 * i] += x;
        f[2 * i + 1] += y;
    }
#endif
    norms[0] = N(norm)(q, rows, s->k);
    norms[1] = N(norm)(f, rows, s->k);
}

/* Compute F = G + factor K and its norm, for `rows` rows. */
static void N(add)(const asp_taylor *s, int64_t begin, int64_t rows, double *norms)
{
    R *f = (R *)s->F + PARTS * begin * s->k;
    const R *v = (const R *)s->Q + PARTS * begin * s->k, *g = (const R *)s->B + PARTS * begin * s->k;
    const R factor = (R)s->scale;
    ASP_IVDEP for (int64_t i = 0; i < PARTS * rows * s->k; i++) f[i] = g[i] + factor * v[i];
    norms[1] = N(norm)(f, rows, s->k);
}

static void N(task)(void *context, int64_t begin, int64_t end)
{
    const asp_taylor *s = context;
    for (int64_t at = begin; at < end; at++) {
        const int64_t first = at * s->chunk, rows = asp_min(s->chunk, s->n - first);
        if (s->is_step) N(step)(s, first, rows, s->norms + 2 * at);
        else N(add)(s, first, rows, s->norms + 2 * at);
    }
}
