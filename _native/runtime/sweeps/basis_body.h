/* Chunks of basis.c for vectors of R (no include guard; once per instruction set and type, see graph_each.h). */
#undef LANES
#define LANES (VBYTES == 64 ? 8 : 4)

typedef double NAME(wide) __attribute__((vector_size(LANES * 8)));
typedef double NAME(wideu) __attribute__((vector_size(LANES * 8), aligned(8), may_alias));
typedef R NAME(narrow) __attribute__((vector_size(LANES * sizeof(R)), aligned(sizeof(R)), may_alias));

/* Load LANES reals as doubles. */
ASP_INLINE NAME(wide) NAME(widened)(const R *p)
{
#if IS_FLOAT
    return __builtin_convertvector(*(const NAME(narrow) *)p, NAME(wide));
#else
    return (NAME(wide)) * (const NAME(narrow) *)p;
#endif
}

/* Compute sums[g * n_right + s], the dot product of row g, m reals from v + g * ldv on, with right[s]. */
ASP_INLINE void NAME(dots_of)(const R *v, int64_t ldv, const int n_rows, double right[MAX_RIGHT][CHUNK],
                              const int n_right, int64_t m, double *sums)
{
    NAME(wide) acc[4][MAX_RIGHT] = {{{0}}};
    int64_t i = 0;
    for (; i + LANES <= m; i += LANES) {
        ASP_UNROLL
        for (int g = 0; g < n_rows; g++) {
            const NAME(wide) row = NAME(widened)(v + g * ldv + i);
            ASP_UNROLL
            for (int s = 0; s < n_right; s++) acc[g][s] += row * *(const NAME(wideu) *)(right[s] + i);
        }
    }
    ASP_UNROLL
    for (int g = 0; g < n_rows; g++) {
        ASP_UNROLL
        for (int s = 0; s < n_right; s++) {
            double sum = 0;
            for (int lane = 0; lane < LANES; lane++) sum += acc[g][s][lane];
            for (int64_t k = i; k < m; k++) sum += (double)v[g * ldv + k] * right[s][k];
            sums[g * n_right + s] = sum;
        }
    }
}

/* Compute the dot products of the rows [0, n_rows) of a chunk, `group` rows at a time and then one by one. */
ASP_INLINE void NAME(dots_of_rows)(const R *v, int64_t ldv, int64_t n_rows, double right[MAX_RIGHT][CHUNK],
                                   const int n_right, int64_t m, double *sums)
{
    const int group = n_right == 4 ? 2 : 4;
    int64_t g = 0;
    for (; g + group <= n_rows; g += group)
        NAME(dots_of)(v + g * ldv, ldv, group, right, n_right, m, sums + g * n_right);
    for (; g < n_rows; g++) NAME(dots_of)(v + g * ldv, ldv, 1, right, n_right, m, sums + g * n_right);
}

/* Copy m reals of `from` to double precision, and, unless NULL, its rotated complex numbers to `turned`. */
ASP_INLINE void NAME(widen)(const R *from, double *to, double *turned, int64_t m)
{
    for (int64_t i = 0; i < m; i++) to[i] = from[i];
    for (int64_t i = 0; turned && i < m; i += 2) {
        turned[i] = from[i + 1];
        turned[i + 1] = -(double)from[i];
    }
}

/* Range function: dot products of the chunks [begin, end). */
static void NAME(basis_dots)(const void *args, int64_t begin, int64_t end)
{
    const b_job *job = args;
    const int turns = job->is_complex;
    double right[MAX_RIGHT][CHUNK];
    for (int64_t chunk = begin; chunk < end; chunk++) {
        const int64_t at = chunk * CHUNK, m = asp_min(CHUNK, job->n - at);
        const R *v = (const R *)job->V + at, *w = (const R *)job->w + at;
        double *sums = job->sums + chunk * job->n_sums, *last = sums + job->n_rows * job->n_right;
        NAME(widen)(w, right[0], turns ? right[1] : NULL, m);
        if (job->u) NAME(widen)((const R *)job->u + at, right[1 + turns], turns ? right[3] : NULL, m);
        switch (job->n_right) {
        case 1: NAME(dots_of_rows)(v, job->ldv, job->n_rows, right, 1, m, sums); break;
        case 2: NAME(dots_of_rows)(v, job->ldv, job->n_rows, right, 2, m, sums); break;
        default: NAME(dots_of_rows)(v, job->ldv, job->n_rows, right, 4, m, sums); break;
        }
        for (int64_t s = 1; s < job->n_right; s++) last[s] = 0;
        NAME(dots_of)(w, 0, 1, right, 1, m, last);
    }
}

/* Compute the sum over n_rows rows of c[g * step] * row g, m reals; it is stored to `to` if is_first, else added. */
ASP_INLINE void NAME(add_rows)(R *to, const int is_first, const R *v, int64_t ldv, const double *c, int step,
                               const int n_rows, int64_t m)
{
    R by[4];
    ASP_UNROLL
    for (int g = 0; g < n_rows; g++) by[g] = (R)c[g * step];
    int64_t i = 0;
    for (; i + W <= m; i += W) {
        VEC sum = is_first ? (VEC){0} : LOAD(to + i);
        ASP_UNROLL
        for (int g = 0; g < n_rows; g++) sum += by[g] * LOAD(v + g * ldv + i);
        STORE(to + i, sum);
    }
    for (; i < m; i++) {
        R sum = is_first ? 0 : to[i];
        for (int g = 0; g < n_rows; g++) sum += by[g] * v[g * ldv + i];
        to[i] = sum;
    }
}

/* Compute the sum of all rows times their coefficients. */
ASP_INLINE void NAME(add_all)(R *to, const R *v, int64_t ldv, const double *c, int step, int64_t n_rows, int64_t m)
{
    int64_t g = n_rows & 3;
    switch (g) {
    case 0: NAME(add_rows)(to, 1, v, ldv, c, step, 0, m); break;
    case 1: NAME(add_rows)(to, 1, v, ldv, c, step, 1, m); break;
    case 2: NAME(add_rows)(to, 1, v, ldv, c, step, 2, m); break;
    default: NAME(add_rows)(to, 1, v, ldv, c, step, 3, m); break;
    }
    for (; g < n_rows; g += 4) NAME(add_rows)(to, 0, v + g * ldv, ldv, c + g * step, step, 4, m);
}

/* Range function: linear combinations of the chunks [begin, end). The rows are summed before w is added, so that w,
 * which may be much larger, is rounded once. */
static void NAME(basis_update)(const void *args, int64_t begin, int64_t end)
{
    const b_job *job = args;
    const int step = 1 + job->is_complex;
    const R scale = (R)job->scale;
    R sum[CHUNK], turned[CHUNK];
    double right[MAX_RIGHT][CHUNK]; /* only the first is used */
    for (int64_t chunk = begin; chunk < end; chunk++) {
        const int64_t at = chunk * CHUNK, m = asp_min(CHUNK, job->n - at);
        const R *v = (const R *)job->V + at, *w = (const R *)job->w + at;
        R *out = (R *)job->out + at;
        NAME(add_all)(sum, v, job->ldv, job->c, step, job->n_rows, m);
        if (job->is_complex) { /* i (re, im) = (-im, re) */
            NAME(add_all)(turned, v, job->ldv, job->c + 1, 2, job->n_rows, m);
            for (int64_t i = 0; i < m; i += 2) {
                sum[i] -= turned[i + 1];
                sum[i + 1] += turned[i];
            }
        }
        for (int64_t i = 0; i < m; i++) out[i] = scale * w[i] + sum[i];
        NAME(widen)(out, right[0], NULL, m);
        NAME(dots_of)(out, 0, 1, right, 1, m, job->sums + chunk);
    }
}
