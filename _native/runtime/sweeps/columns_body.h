/* Steps of asp_column_sweep on one chunk of rows (not guarded). R: the real type; N(x): a name of its own; PARTS: 2 for
 * complex values, else 1. `count` elements lie one after the other; coefficients repeat after `period` elements. */

#define EACH_ELEMENT                                                          \
    for (int64_t b = 0; b < count; b += period)                               \
        ASP_IVDEP for (int64_t i = 0, m = asp_min(period, count - b); i < m; i++)

#if PARTS == 1
#define AT(t) (c##t[i] * v##t[b + i])
#define PUT(sum) out[b + i] = sum
#else
#define AT_RE(t) (c##t[2 * i] * v##t[2 * (b + i)] - c##t[2 * i + 1] * v##t[2 * (b + i) + 1])
#define AT_IM(t) (c##t[2 * i] * v##t[2 * (b + i) + 1] + c##t[2 * i + 1] * v##t[2 * (b + i)])
#endif

static void N(combine)(R *out, const R *const *v, const R *c, int64_t n_terms, int64_t count, int64_t period)
{
    const R *v0 = v[0], *v1 = v[1], *v2 = v[2], *v3 = v[3];
    const R *c0 = c, *c1 = c + PARTS * period, *c2 = c1 + PARTS * period, *c3 = c2 + PARTS * period;
    switch (n_terms) {
#if PARTS == 1
    case 1: EACH_ELEMENT PUT(AT(0)); break;
    case 2: EACH_ELEMENT PUT(AT(0) + AT(1)); break;
    case 3: EACH_ELEMENT PUT(AT(0) + AT(1) + AT(2)); break;
    default: EACH_ELEMENT PUT(AT(0) + AT(1) + AT(2) + AT(3)); break;
#else
#define PUT2(of_re, of_im)                \
    {                                     \
        const R re = of_re, im = of_im;   \
        out[2 * (b + i)] = re;            \
        out[2 * (b + i) + 1] = im;        \
    }
    case 1: EACH_ELEMENT PUT2(AT_RE(0), AT_IM(0)) break;
    case 2: EACH_ELEMENT PUT2(AT_RE(0) + AT_RE(1), AT_IM(0) + AT_IM(1)) break;
    case 3: EACH_ELEMENT PUT2(AT_RE(0) + AT_RE(1) + AT_RE(2), AT_IM(0) + AT_IM(1) + AT_IM(2)) break;
    default:
        EACH_ELEMENT PUT2(AT_RE(0) + AT_RE(1) + AT_RE(2) + AT_RE(3), AT_IM(0) + AT_IM(1) + AT_IM(2) + AT_IM(3))
        break;
#undef PUT2
#endif
    }
}

static void N(scale)(R *out, const R *d, const R *v, int64_t rows, int64_t k)
{
    for (int64_t r = 0; r < rows; r++) {
#if PARTS == 1
        ASP_IVDEP for (int64_t j = 0; j < k; j++) out[r * k + j] = d[r] * v[r * k + j];
#else
        const R a = d[2 * r], b = d[2 * r + 1];
        ASP_IVDEP for (int64_t j = 0; j < k; j++) {
            const R x = v[2 * (r * k + j)], y = v[2 * (r * k + j) + 1];
            out[2 * (r * k + j)] = a * x - b * y;
            out[2 * (r * k + j) + 1] = a * y + b * x;
        }
#endif
    }
}

/* `sums` has PARTS * period places. */
static void N(dot)(const R *u, const R *v, double *sums, int64_t count, int64_t period)
{
    for (int64_t i = 0; i < PARTS * period; i++) sums[i] = 0;
#if PARTS == 1
    EACH_ELEMENT sums[i] += (double)u[b + i] * (double)v[b + i];
#else
    EACH_ELEMENT
    {
        const double a = u[2 * (b + i)], e = u[2 * (b + i) + 1], x = v[2 * (b + i)], y = v[2 * (b + i) + 1];
        sums[2 * i] += a * x + e * y;
        sums[2 * i + 1] += a * y - e * x;
    }
#endif
}

ASP_INLINE double N(size)(const R *u, int64_t at)
{
#if PARTS == 1
    return (double)(u[at] < 0 ? -u[at] : u[at]);
#else
    const double x = u[2 * at], y = u[2 * at + 1], s = sqrt(x * x + y * y);
    return s < 1e150 && s > 1e-150 ? s : hypot(x, y);
#endif
}

/* The largest sum of a row; a sum that is no number stays. */
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

static void N(chunk)(const asp_columns *s, int64_t at)
{
    const int64_t begin = at * s->chunk, rows = asp_min(s->chunk, s->n - begin), count = rows * s->k;
    const R *c = s->expanded;
    double *to = s->partials + at * s->n_results * s->k * PARTS;
    for (int64_t t = 0; t < s->n_steps; t++) {
        const int64_t *step = s->program + t * ASP_COLUMN_STEP, n_terms = step[2];
        const R *v[4] = {0};
        for (int64_t i = 0; i < n_terms; i++)
            v[i] = (const R *)s->blocks[step[3 + i]] + PARTS * begin * (step[0] == SCALE && i == 0 ? 1 : s->k);
        R *out = step[1] < 0 ? NULL : (R *)s->blocks[step[1]] + PARTS * begin * s->k;
        if (step[0] == COMBINE) {
            N(combine)(out, v, c, n_terms, count, s->period);
            c += n_terms * s->period * PARTS;
        } else if (step[0] == SCALE) {
            N(scale)(out, v[0], v[1], rows, s->k);
        } else {
            const int64_t width = s->k * PARTS;
            memset(to, 0, (size_t)width * sizeof *to);
            if (step[0] == NORM) {
                to[0] = N(norm)(v[0], rows, s->k);
            } else {
                double sums[PARTS * MAX_PERIOD];
                N(dot)(v[0], v[1], sums, count, s->period);
                for (int64_t i = 0; i < s->period * PARTS; i++) to[i % width] += sums[i];
            }
            to += width;
        }
    }
}

/* Coefficients of all terms, repeated to the period, in the real type. */
static void N(expand)(const asp_columns *s, const double *coefficients, int64_t n_terms)
{
    R *to = s->expanded;
    const int64_t width = s->k * PARTS, all = s->period * PARTS;
    for (int64_t t = 0; t < n_terms; t++)
        for (int64_t i = 0; i < all; i++) to[t * all + i] = (R)coefficients[t * width + i % width];
}

static void N(task)(void *context, int64_t begin, int64_t end)
{
    for (int64_t at = begin; at < end; at++) N(chunk)(context, at);
}

#undef EACH_ELEMENT
#undef AT
#undef PUT
#undef AT_RE
#undef AT_IM
