/* Pool task that adds the private sums of parts of A^T B to C. Included by matmul_t.c, which defines `product`. */

#define FIRST(p) asp_max(begin, job->touched[(p) + 1].low)
#define LAST(p) asp_min(end, job->touched[(p) + 1].high)
#define ADD_SUMS(R)                                                                     \
    for (int64_t p = 0; p + 1 < job->n_parts; p++)                                      \
        for (int64_t i = FIRST(p), stop = LAST(p); i < stop; i++) {                     \
            R *restrict c = (R *)args->C + i * args->ldc * words;                       \
            const R *restrict s = (const R *)(job->sums + p * job->sums_bytes) + i * width; \
            for (int64_t w = 0; w < width; w++) c[w] += s[w];                           \
        }
#define ADD_SUMS_FLAT(R)                                                                \
    for (int64_t p = 0; p + 1 < job->n_parts; p++) {                                    \
        R *restrict c = (R *)args->C;                                                   \
        const R *restrict s = (const R *)(job->sums + p * job->sums_bytes);             \
        for (int64_t w = FIRST(p) * width, stop = LAST(p) * width; w < stop; w++) c[w] += s[w]; \
    }

/* Variant of `add_task` for integers. */
static void add_integers(const product *job, int64_t begin, int64_t end)
{
    const asp_args *args = &job->args;
    const int64_t step = args->ldc * job->element_bytes, width = args->n_vecs * job->element_bytes;
    for (int64_t p = 0; p + 1 < job->n_parts; p++)
        for (int64_t i = FIRST(p), stop = LAST(p); i < stop; i++)
            asp_add_integers(job->dtype, (char *)args->C + i * step, job->sums + p * job->sums_bytes + i * width,
                             args->n_vecs);
}

/* Pool task: add the sums of the other parts to C[begin:end], in their order. */
static void add_task(void *context, int64_t begin, int64_t end)
{
    const product *job = context;
    const asp_args *args = &job->args;
    if (job->dtype > ASP_C128) {
        add_integers(job, begin, end);
        return;
    }
    const int64_t words = asp_words(job->dtype), width = args->n_vecs * words;
    const int single = job->dtype == ASP_F32 || job->dtype == ASP_C64;
    if (args->ldc == args->n_vecs) {
        if (single) ADD_SUMS_FLAT(float)
        else ADD_SUMS_FLAT(double)
    } else {
        if (single) ADD_SUMS(float)
        else ADD_SUMS(double)
    }
}

#undef FIRST
#undef LAST
#undef ADD_SUMS
#undef ADD_SUMS_FLAT
