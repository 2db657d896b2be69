/* Elimination of rows for one real type, one type of indices and one instruction set (not guarded). */

typedef struct {
    const INDEX *start, *stop, *indices;
    const R *data, *inverse;
    R *x;
    int64_t leading;
    int is_backward;
} N(triangle);

/* A product that is rounded: never fused with the following addition, which compilers do in some loops only. */
ASP_INLINE R N(times)(R a, R b)
{
    R product = a * b;
    ASP_PIN_VECTOR(product);
    return product;
}

/* x[i] -= a x[j] for complex numbers, as two multiplications by reals. */
ASP_INLINE void N(subtract)(R *to, const R *a, R re, R im)
{
    to[0] -= N(times)(a[0], re);
    to[0] += N(times)(a[1], im);
    to[1] -= N(times)(a[0], im);
    to[1] -= N(times)(a[1], re);
}

ASP_INLINE void N(scale)(R *x, const R *by)
{
    const R re = x[0], im = x[1];
    R product[2] = {N(times)(re, by[0]), N(times)(im, by[0])};
    product[0] -= N(times)(im, by[1]);
    product[1] += N(times)(re, by[1]);
    memcpy(x, product, sizeof product);
}

ASP_INLINE void N(gather_real)(const N(triangle) *t, int64_t i)
{
    R sum = t->x[i * t->leading];
    const int64_t first = t->start[i], last = t->stop[i];
    if (t->is_backward)
        for (int64_t q = last; q-- > first;) sum -= N(times)(t->data[q], t->x[t->indices[q] * t->leading]);
    else
        for (int64_t q = first; q < last; q++) sum -= N(times)(t->data[q], t->x[t->indices[q] * t->leading]);
    t->x[i * t->leading] = t->inverse ? sum * t->inverse[i] : sum;
}

ASP_INLINE void N(scatter_real)(const N(triangle) *t, int64_t i)
{
    if (t->inverse) t->x[i * t->leading] *= t->inverse[i];
    const R own = t->x[i * t->leading];
    for (int64_t q = t->start[i]; q < t->stop[i]; q++) t->x[t->indices[q] * t->leading] -= N(times)(t->data[q], own);
}

ASP_INLINE void N(gather_complex)(const N(triangle) *t, int64_t i)
{
    R sum[2] = {t->x[i * t->leading], t->x[i * t->leading + 1]};
    const int64_t first = t->start[i], n = t->stop[i] - first;
    for (int64_t k = 0; k < n; k++) {
        const int64_t q = t->is_backward ? first + n - 1 - k : first + k;
        const R *x = t->x + t->indices[q] * t->leading;
        N(subtract)(sum, t->data + 2 * q, x[0], x[1]);
    }
    if (t->inverse) N(scale)(sum, t->inverse + 2 * i);
    memcpy(t->x + i * t->leading, sum, sizeof sum);
}

ASP_INLINE void N(scatter_complex)(const N(triangle) *t, int64_t i)
{
    R *own = t->x + i * t->leading;
    if (t->inverse) N(scale)(own, t->inverse + 2 * i);
    const R re = own[0], im = own[1];
    for (int64_t q = t->start[i]; q < t->stop[i]; q++)
        N(subtract)(t->x + t->indices[q] * t->leading, t->data + 2 * q, re, im);
}

/* W reals of a row of X as vectors of at most VBYTES. */
#define BYTES_OF(W) (W * sizeof(R) < VBYTES ? W * sizeof(R) : VBYTES)
#define PANEL(W)                                                                                                      \
    typedef R N(vector##W) __attribute__((vector_size(BYTES_OF(W)), aligned(sizeof(R)), may_alias));                  \
    enum { N(lanes##W) = BYTES_OF(W) / sizeof(R), N(count##W) = W / N(lanes##W) };                                    \
    ASP_INLINE N(vector##W) N(times##W)(R a, N(vector##W) b)                                                          \
    {                                                                                                                 \
        N(vector##W) product = a * b;                                                                                 \
        ASP_PIN_VECTOR(product);                                                                                      \
        return product;                                                                                               \
    }                                                                                                                 \
    /* (re, im) becomes (-im, re) */                                                                                  \
    ASP_INLINE N(vector##W) N(turned##W)(N(vector##W) v)                                                              \
    {                                                                                                                 \
        N(vector##W) swapped;                                                                                         \
        for (int lane = 0; lane < N(lanes##W); lane++) swapped[lane] = lane % 2 ? v[lane ^ 1] : -v[lane ^ 1];         \
        return swapped;                                                                                               \
    }                                                                                                                 \
    ASP_INLINE void N(subtract##W)(N(vector##W) *sums, const R *a, const N(vector##W) *x, const int is_pair)          \
    {                                                                                                                 \
        ASP_UNROLL for (int v = 0; v < N(count##W); v++) sums[v] -= N(times##W)(a[0], x[v]);                          \
        if (is_pair) ASP_UNROLL for (int v = 0; v < N(count##W); v++) sums[v] -= N(times##W)(a[1], N(turned##W)(x[v]));\
    }                                                                                                                 \
    ASP_INLINE void N(scale##W)(N(vector##W) *x, const R *by, const int is_pair)                                      \
    {                                                                                                                 \
        ASP_UNROLL for (int v = 0; v < N(count##W); v++) {                                                            \
            const N(vector##W) own = x[v];                                                                            \
            x[v] = N(times##W)(by[0], own);                                                                           \
            if (is_pair) x[v] += N(times##W)(by[1], N(turned##W)(own));                                               \
        }                                                                                                             \
    }                                                                                                                 \
    ASP_INLINE void N(gather##W)(const N(triangle) *t, int64_t i, const int is_pair)                                  \
    {                                                                                                                 \
        N(vector##W) sums[N(count##W)], *to = (N(vector##W) *)(t->x + i * t->leading);                                \
        ASP_UNROLL for (int v = 0; v < N(count##W); v++) sums[v] = to[v];                                             \
        const int64_t first = t->start[i], n = t->stop[i] - first;                                                    \
        for (int64_t k = 0; k < n; k++) {                                                                             \
            const int64_t q = t->is_backward ? first + n - 1 - k : first + k;                                         \
            const R *x = t->x + t->indices[q] * t->leading;                                                           \
            N(subtract##W)(sums, t->data + (q << is_pair), (const N(vector##W) *)x, is_pair);                         \
        }                                                                                                             \
        if (t->inverse) N(scale##W)(sums, t->inverse + (i << is_pair), is_pair);                                      \
        ASP_UNROLL for (int v = 0; v < N(count##W); v++) to[v] = sums[v];                                             \
    }                                                                                                                 \
    ASP_INLINE void N(scatter##W)(const N(triangle) *t, int64_t i, const int is_pair)                                 \
    {                                                                                                                 \
        N(vector##W) own[N(count##W)], *from = (N(vector##W) *)(t->x + i * t->leading);                               \
        ASP_UNROLL for (int v = 0; v < N(count##W); v++) own[v] = from[v];                                            \
        if (t->inverse) N(scale##W)(own, t->inverse + (i << is_pair), is_pair);                                       \
        ASP_UNROLL for (int v = 0; v < N(count##W); v++) from[v] = own[v];                                            \
        for (int64_t q = t->start[i]; q < t->stop[i]; q++) {                                                          \
            N(vector##W) *to = (N(vector##W) *)(t->x + t->indices[q] * t->leading);                                   \
            N(subtract##W)(to, t->data + (q << is_pair), own, is_pair);                                               \
        }                                                                                                             \
    }                                                                                                                 \
    static void N(panel##W)(const N(triangle) *t, const int64_t i, int is_pair, int is_scattered)                     \
    {                                                                                                                 \
        if (is_pair) is_scattered ? N(scatter##W)(t, i, 1) : N(gather##W)(t, i, 1);                                   \
        else is_scattered ? N(scatter##W)(t, i, 0) : N(gather##W)(t, i, 0);                                           \
    }
PANEL(4)
PANEL(8)
PANEL(16)
#undef PANEL
#undef BYTES_OF

static void N(rows)(void *context, int64_t first, int64_t last)
{
    const solving *it = context;
    const asp_triangle *triangle = it->triangle;
    const INDEX *order = (const INDEX *)triangle->order;
    const int is_pair = triangle->dtype >= ASP_C64, is_scattered = triangle->is_scattered, is_backward = triangle->is_backward;
    const N(triangle) t = {
        (const INDEX *)triangle->start, (const INDEX *)triangle->stop, (const INDEX *)triangle->indices,
        (const R *)triangle->data, (const R *)triangle->inverse, (R *)it->X + it->panel, it->leading, is_backward};
#define EACH_ROW(CALL)                                                                                                \
    for (int64_t at = first; at < last; at++) {                                                                       \
        const int64_t i = order ? order[at] : is_backward ? triangle->n - 1 - at : at;                                \
        CALL;                                                                                                         \
    }
    if (it->width == 16) EACH_ROW(N(panel16)(&t, i, is_pair, is_scattered))
    else if (it->width == 8) EACH_ROW(N(panel8)(&t, i, is_pair, is_scattered))
    else if (it->width == 4) EACH_ROW(N(panel4)(&t, i, is_pair, is_scattered))
    else if (is_pair && is_scattered) EACH_ROW(N(scatter_complex)(&t, i))
    else if (is_pair) EACH_ROW(N(gather_complex)(&t, i))
    else if (is_scattered) EACH_ROW(N(scatter_real)(&t, i))
    else EACH_ROW(N(gather_real)(&t, i))
#undef EACH_ROW
}
