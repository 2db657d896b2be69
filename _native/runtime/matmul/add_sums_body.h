/* Addition of the private sums of parts of A^T B to C. Included by matmul_t.c, which defines `product`. */

#define ADD_SUMS(R)                                                                                   \
    for (int64_t i = begin; i < end; i++) {                                                           \
        R *restrict c = (R *)args->C + i * args->ldc * words;                                         \
        const R *restrict s = (const R *)sums + i * width;                                            \
        for (int64_t w = 0; w < width; w++) c[w] += s[w];                                             \
    }
#define ADD_SUMS_FLAT(R)                                                                              \
    {                                                                                                 \
        R *restrict c = (R *)args->C;                                                                 \
        const R *restrict s = (const R *)sums;                                                        \
        for (int64_t w = begin * width; w < end * width; w++) c[w] += s[w];                           \
    }

/* Add the sums of part p, which is not the first, to those of C's rows [begin, end) that the part touches. */
static void add_part(const product *job, int64_t p, int64_t begin, int64_t end)
{
    const asp_args *args = &job->args;
    const char *sums = job->sums + (p - 1) * job->sums_bytes;
    const int64_t words = asp_words(job->dtype), width = args->n_vecs * words, row_bytes = args->n_vecs * job->element_bytes;
    const int single = job->dtype == ASP_F32 || job->dtype == ASP_C64;
    begin = asp_max(begin, job->touched[p].low), end = asp_min(end, job->touched[p].high);
    if (job->dtype > ASP_C128) {
        for (int64_t i = begin; i < end; i++)
            asp_add_integers(job->dtype, (char *)args->C + i * args->ldc * job->element_bytes, sums + i * row_bytes, args->n_vecs);
    } else if (args->ldc == args->n_vecs) {
        if (single) ADD_SUMS_FLAT(float)
        else ADD_SUMS_FLAT(double)
    } else {
        if (single) ADD_SUMS(float)
        else ADD_SUMS(double)
    }
}

/* Pool task: add the sums of the other parts to C[begin:end], in their order. */
static void add_task(void *context, int64_t begin, int64_t end)
{
    const product *job = context;
    for (int64_t p = 1; p < job->n_parts; p++) add_part(job, p, begin, end);
}

/* Note that part p of two has ended; the later one adds the sums of part 1 to C. Part 1 waits for a part 0 that has begun, so
 * that the thread that computed the sums is the only one that reads them: clearing lines that another core has read took
 * 43 instead of 3 us for 200 KB (two cores, Zen 4). */
static void end_part_of_two(product *job, int64_t p)
{
    const int64_t begin_ns = asp_now_ns(), most_ns = (int64_t)serial_ns(job); /* part 0 may be interrupted */
    while (p == 1 && atomic_load_explicit(&job->state, memory_order_acquire) == FIRST_BEGUN && asp_now_ns() - begin_ns < most_ns)
        asp_relax();
    const int mine = p == 0 ? FIRST_ENDED : SECOND_ENDED, other = FIRST_ENDED + SECOND_ENDED - mine;
    if (atomic_fetch_or_explicit(&job->state, mine, memory_order_acq_rel) & other) add_part(job, 1, 0, job->args.n_cols);
}

#undef ADD_SUMS
#undef ADD_SUMS_FLAT
