/* Operations of sweeps on the reals of a chunk (asp_sweep_bodies): R is the type, NAME(x) the function's name.
 * VBYTES is the vector width of the instruction set. All instruction sets sum the same lanes in the same order,
 * and products are rounded before they are added, so results are bitwise the same. */

enum { NAME(VL) = (int)(VBYTES / sizeof(R)) };
#define VL NAME(VL)
typedef R NAME(vec) __attribute__((vector_size(VBYTES), aligned(sizeof(R)), may_alias));
#define V NAME(vec)
#define LOAD(from) (*(const V *)(from))

/* Return a b, rounded (ASP_PIN_VECTOR prevents a fused multiply-add). */
ASP_INLINE V NAME(product)(V a, V b)
{
    V product = a * b;
    ASP_PIN_VECTOR(product);
    return product;
}

/* Return a vector with `value` in all lanes. */
ASP_INLINE V NAME(all)(R value)
{
    V all;
    for (int lane = 0; lane < VL; lane++) all[lane] = value;
    return all;
}

/* Swap the parts of complex numbers: (re, im) becomes (im, re). */
ASP_INLINE V NAME(swap)(V v)
{
    V swapped;
    for (int lane = 0; lane < VL; lane++) swapped[lane] = v[lane ^ 1];
    return swapped;
}

/* Return (-im, im, ...), the factors of swapped pairs. */
ASP_INLINE V NAME(turning)(R im)
{
    V turning;
    for (int lane = 0; lane < VL; lane++) turning[lane] = lane % 2 ? im : -im;
    return turning;
}

/* Return the sum of coefficient * term; complex if `turning` is given. */
ASP_INLINE V NAME(combined)(const R *const *terms, const V *c, const V *turning, const int n_terms, int64_t at)
{
    V sum = NAME(product)(c[0], LOAD(terms[0] + at));
    if (turning) sum += NAME(product)(turning[0], NAME(swap)(LOAD(terms[0] + at)));
    ASP_UNROLL for (int t = 1; t < n_terms; t++)
    {
        const V term = LOAD(terms[t] + at);
        sum += NAME(product)(c[t], term);
        if (turning) sum += NAME(product)(turning[t], NAME(swap)(term));
    }
    return sum;
}

/* Copy the last `n` reals of each term, fewer than a vector, to whole vectors. */
ASP_INLINE void NAME(pad)(R (*ends)[NAME(VL)], const R **tails, const R *const *terms, int n_terms, int64_t at, int64_t n)
{
    for (int t = 0; t < n_terms; t++) {
        for (int lane = 0; lane < VL; lane++) ends[t][lane] = lane < n ? terms[t][at + lane] : 0;
        tails[t] = ends[t];
    }
}

/* Compute out = sum of coefficient * term for n reals. */
ASP_INLINE void NAME(combine_of)(R *out, const R *const *terms, const V *c, const V *turning, const int n_terms, int64_t n)
{
    int64_t i = 0;
    for (; i + VL <= n; i += VL) *(V *)(out + i) = NAME(combined)(terms, c, turning, n_terms, i);
    if (i == n) return;
    R ends[ASP_MAX_TERMS][NAME(VL)];
    const R *tails[ASP_MAX_TERMS];
    NAME(pad)(ends, tails, terms, n_terms, i, n - i);
    const V last = NAME(combined)(tails, c, turning, n_terms, 0);
    for (int lane = 0; lane < n - i; lane++) out[i + lane] = last[lane];
}

#define EACH_COUNT(call)                                                              \
    switch (n_terms) {                                                                \
    case 1: { enum { N = 1 }; call; break; }                                          \
    case 2: { enum { N = 2 }; call; break; }                                          \
    case 3: { enum { N = 3 }; call; break; }                                          \
    default: { enum { N = 4 }; call; break; }                                         \
    }

static void NAME(combine)(void *out, const void *const *terms, const double *c, int n_terms, int64_t n)
{
    V re[ASP_MAX_TERMS];
    for (int t = 0; t < n_terms; t++) re[t] = NAME(all)((R)c[2 * t]);
    EACH_COUNT(NAME(combine_of)(out, (const R *const *)terms, re, NULL, N, n))
}

static void NAME(combine_complex)(void *out, const void *const *terms, const double *c, int n_terms, int64_t n)
{
    V re[ASP_MAX_TERMS], turning[ASP_MAX_TERMS];
    for (int t = 0; t < n_terms; t++) {
        re[t] = NAME(all)((R)c[2 * t]);
        turning[t] = NAME(turning)((R)c[2 * t + 1]);
    }
    EACH_COUNT(NAME(combine_of)(out, (const R *const *)terms, re, turning, N, n))
}

static void NAME(scale)(void *out, const void *d, const void *v, int64_t n)
{
    R *to = out;
    const R *factors = d, *from = v;
    ASP_INDEPENDENT for (int64_t i = 0; i < n; i++) to[i] = factors[i] * from[i];
}

static void NAME(scale_by_real)(void *out, const void *d, const void *v, int64_t n)
{
    R *to = out;
    const R *factors = d, *from = v;
    ASP_INDEPENDENT for (int64_t i = 0; i < n / 2; i++) {
        to[2 * i] = factors[i] * from[2 * i];
        to[2 * i + 1] = factors[i] * from[2 * i + 1];
    }
}

/* Compute the complex product with its four products rounded. */
ASP_INLINE void NAME(times)(R *to, const R *a, const R *b)
{
    R both_re = a[0] * b[0], both_im = a[1] * b[1], re_im = a[0] * b[1], im_re = a[1] * b[0];
    ASP_PIN_VECTOR(both_re);
    ASP_PIN_VECTOR(both_im);
    ASP_PIN_VECTOR(re_im);
    ASP_PIN_VECTOR(im_re);
    to[0] = both_re - both_im;
    to[1] = re_im + im_re;
}

static void NAME(scale_complex)(void *out, const void *d, const void *v, int64_t n)
{
    for (int64_t i = 0; i < n; i += 2) NAME(times)((R *)out + i, (const R *)d + i, (const R *)v + i);
}

/* Vector of as many elements of R as a vector holds doubles. */
typedef R NAME(few) __attribute__((vector_size(DOUBLES * sizeof(R)), aligned(sizeof(R)), may_alias));
#define WIDENED(from) __builtin_convertvector(*(const NAME(few) *)(from), doubles)

/* Add the products of u and v to the real and, unless NULL, the imaginary sums. */
ASP_INLINE void NAME(add_products)(doubles *re, doubles *im, const R *u, const R *v)
{
    const doubles a = WIDENED(u), b = WIDENED(v);
    *re += double_product(a, b);
    if (im) *im += double_product(a, double_swap(b));
}

/* Compute a dot product. Lane l of 32 sums the products l, l + 32, ...; of the remainder, groups of eight go to lanes
 * 0 to 7, and the rest to lanes 8 to 15. */
ASP_INLINE void NAME(dot_of)(const R *u, const R *v, int64_t n, double *sum, const int is_pair)
{
    doubles re[LANES], im[LANES];
    for (int lane = 0; lane < LANES; lane++) re[lane] = im[lane] = double_all(0);
    int64_t i = 0;
    for (; i + 32 <= n; i += 32)
        ASP_UNROLL for (int at = 0; at < LANES; at++)
            NAME(add_products)(&re[at], is_pair ? &im[at] : NULL, u + i + DOUBLES * at, v + i + DOUBLES * at);
    for (; i + 8 <= n; i += 8)
        ASP_UNROLL for (int at = 0; at < LANES / 4; at++)
            NAME(add_products)(&re[at], is_pair ? &im[at] : NULL, u + i + DOUBLES * at, v + i + DOUBLES * at);
    if (i < n) {
        R ends[2][8];
        for (int lane = 0; lane < 8; lane++) {
            ends[0][lane] = lane < n - i ? u[i + lane] : 0;
            ends[1][lane] = lane < n - i ? v[i + lane] : 0;
        }
        ASP_UNROLL for (int at = 0; at < LANES / 4; at++)
            NAME(add_products)(&re[LANES / 4 + at], is_pair ? &im[LANES / 4 + at] : NULL, ends[0] + DOUBLES * at,
                               ends[1] + DOUBLES * at);
    }
    double lanes[8];
    lanes_of(re, lanes);
    sum[0] = ((lanes[0] + lanes[4]) + (lanes[2] + lanes[6])) + ((lanes[1] + lanes[5]) + (lanes[3] + lanes[7]));
    if (is_pair) lanes_of(im, lanes);
    sum[1] = is_pair ? ((lanes[0] + lanes[4]) + (lanes[2] + lanes[6])) - ((lanes[1] + lanes[5]) + (lanes[3] + lanes[7])) : 0;
}

static void NAME(dot)(const void *u, const void *v, int64_t n, double *sum) { NAME(dot_of)(u, v, n, sum, 0); }
static void NAME(dot_complex)(const void *u, const void *v, int64_t n, double *sum) { NAME(dot_of)(u, v, n, sum, 1); }

/* Compute linear combinations of columns; coefficients repeat after `period` reals (asp_sweep_bodies). */
ASP_INLINE void NAME(combine_rows)(R *out, const R *const *terms, const R *re, const R *im, int64_t period,
                                   const int n_terms, int64_t n)
{
    const R *from[ASP_MAX_TERMS], *tails[ASP_MAX_TERMS];
    R ends[ASP_MAX_TERMS][NAME(VL)];
    for (int64_t i = 0; i < n; i += period) {
        const int64_t stop = asp_min(period, n - i);
        for (int t = 0; t < n_terms; t++) from[t] = terms[t] + i;
        for (int64_t at = 0; at < stop; at += VL) {
            V c[ASP_MAX_TERMS], turning[ASP_MAX_TERMS];
            for (int t = 0; t < n_terms; t++) {
                c[t] = LOAD(re + t * period + at);
                if (im) turning[t] = LOAD(im + t * period + at);
            }
            if (at + VL <= stop) {
                *(V *)(out + i + at) = NAME(combined)(from, c, im ? turning : NULL, n_terms, at);
                continue;
            }
            NAME(pad)(ends, tails, from, n_terms, at, stop - at);
            const V last = NAME(combined)(tails, c, im ? turning : NULL, n_terms, 0);
            for (int lane = 0; lane < stop - at; lane++) out[i + at + lane] = last[lane];
        }
    }
}

/* Compute linear combinations of columns whose coefficients repeat after `group` vectors, and stay in registers; return
 * the number of reals done, whole rows. */
ASP_INLINE int64_t NAME(combine_groups)(R *out, const R *const *terms, const R *re, int64_t period, const int n_terms,
                                        const int group, int64_t n)
{
    V c[MAX_GROUP][ASP_MAX_TERMS];
    ASP_UNROLL for (int g = 0; g < group; g++)
        ASP_UNROLL for (int t = 0; t < n_terms; t++) c[g][t] = LOAD(re + t * period + g * VL);
    int64_t i = 0;
    for (; i + group * VL <= n; i += group * VL)
        ASP_UNROLL for (int g = 0; g < group; g++)
            *(V *)(out + i + g * VL) = NAME(combined)(terms, c[g], NULL, n_terms, i + g * VL);
    return i;
}

/* Compute linear combinations of real columns; rows of `width` reals. */
ASP_INLINE void NAME(combine_real_rows)(R *out, const R *const *terms, const R *re, int64_t width, int64_t period,
                                        const int n_terms, int64_t n)
{
    const R *rest[ASP_MAX_TERMS];
    int64_t done = 0;
    if (VL % width == 0) done = NAME(combine_groups)(out, terms, re, period, n_terms, 1, n);
    else if (width == 2 * VL) done = NAME(combine_groups)(out, terms, re, period, n_terms, 2, n);
    for (int t = 0; t < n_terms; t++) rest[t] = terms[t] + done;
    NAME(combine_rows)(out + done, rest, re, NULL, period, n_terms, n - done);
}

static void NAME(combine_columns)(void *out, const void *const *terms, const void *re, const void *im, int n_terms,
                                  int64_t width, int64_t period, int64_t n)
{
    const R *const *from = (const R *const *)terms;
    if (im) EACH_COUNT(NAME(combine_rows)(out, from, re, im, period, N, n))
    else EACH_COUNT(NAME(combine_real_rows)(out, from, re, width, period, N, n))
}

/* Add the products of DOUBLES reals to the sums of columns. */
ASP_INLINE void NAME(add_columns)(double *re, double *im, const R *u, const R *v)
{
    doubles re_sums = *(doubles *)re, im_sums = im ? *(doubles *)im : re_sums;
    NAME(add_products)(&re_sums, im ? &im_sums : NULL, u, v);
    *(doubles *)re = re_sums;
    if (im) *(doubles *)im = im_sums;
}

/* Add the products of whole periods to the sums of columns, SUMS vectors of sums at a time in registers; return the
 * number of reals done. */
ASP_INLINE int64_t NAME(dot_periods)(const R *u, const R *v, double *re, int64_t period, int64_t n)
{
    const int64_t whole = n - n % period;
    for (int64_t at = 0; at < period; at += SUMS * DOUBLES) {
        doubles sums[SUMS];
        ASP_UNROLL for (int s = 0; s < SUMS; s++) sums[s] = *(const doubles *)(re + at + s * DOUBLES);
        for (int64_t i = at; i < whole; i += period)
            ASP_UNROLL for (int s = 0; s < SUMS; s++)
                NAME(add_products)(&sums[s], NULL, u + i + s * DOUBLES, v + i + s * DOUBLES);
        ASP_UNROLL for (int s = 0; s < SUMS; s++) *(doubles *)(re + at + s * DOUBLES) = sums[s];
    }
    return whole;
}

static void NAME(dot_columns)(const void *u, const void *v, double *re, double *im, int64_t period, int64_t n)
{
    R ends[2][DOUBLES];
    const int64_t done = im || period % (SUMS * DOUBLES) ? 0 : NAME(dot_periods)(u, v, re, period, n);
    for (int64_t i = done; i < n; i += period) {
        const int64_t stop = asp_min(period, n - i);
        const R *a = (const R *)u + i, *b = (const R *)v + i;
        int64_t at = 0;
        if (im) for (; at + DOUBLES <= stop; at += DOUBLES) NAME(add_columns)(re + at, im + at, a + at, b + at);
        else for (; at + DOUBLES <= stop; at += DOUBLES) NAME(add_columns)(re + at, NULL, a + at, b + at);
        if (at == stop) continue;
        for (int lane = 0; lane < DOUBLES; lane++) {
            ends[0][lane] = lane < stop - at ? a[at + lane] : 0;
            ends[1][lane] = lane < stop - at ? b[at + lane] : 0;
        }
        NAME(add_columns)(re + at, im ? im + at : NULL, ends[0], ends[1]);
    }
}

/* Scale rows of `width` reals; d has one element per row, complex if `is_d_complex`. */
static void NAME(scale_rows)(void *out, const void *d, const void *v, int64_t width, int is_d_complex, int64_t n)
{
    const R *factors = d, *from = v;
    R *to = out;
    for (int64_t row = 0; row * width < n; row++) {
        const int64_t first = row * width;
        if (is_d_complex)
            for (int64_t at = 0; at < width; at += 2) NAME(times)(to + first + at, factors + 2 * row, from + first + at);
        else
            for (int64_t at = 0; at < width; at++) to[first + at] = factors[row] * from[first + at];
    }
}

/* Write one part of the columns' coefficients as R, per real of a row, repeated to fill the period. Imaginary parts
 * have the signs of `turning`. */
static void NAME(spread)(const double *pairs, int part, int64_t n_columns, int64_t reals, int64_t period, void *spread)
{
    for (int64_t at = 0; at < period; at++) {
        const R value = (R)pairs[2 * (at / reals % n_columns) + part];
        ((R *)spread)[at] = part && at % 2 == 0 ? -value : value;
    }
}

#define BODIES                                                                                                         \
    {                                                                                                                  \
        NAME(combine), NAME(combine_complex), NAME(scale), NAME(scale_complex), NAME(scale_by_real), NAME(dot),        \
            NAME(dot_complex), NAME(combine_columns), NAME(dot_columns), NAME(scale_rows), NAME(spread)                \
    }
static const asp_sweep_bodies NAME(bodies) = BODIES;
#undef BODIES
#undef EACH_COUNT
#undef WIDENED
#undef LOAD
#undef VL
#undef V
