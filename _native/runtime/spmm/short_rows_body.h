/* The kernel of short_rows.c for one real type R and one index type I. */

/* Store the first n elements of v. With 32-byte vectors they are stored in parts: on AMD's processors a store under such
 * a mask takes 6 to 12 cycles. */
ASP_INLINE void NAME(put_first)(R *to, int64_t n, VM lanes, V v)
{
    if (VBYTES != 32) {
        v_storem(to, lanes, v);
        return;
    }
    R elements[VL] __attribute__((aligned(VBYTES)));
    const R *from = elements;
    v_store(elements, v);
    if (n == VL) v_store(to, v);
    else if (n & 4) memcpy(to, from, 4 * RBYTES), to += 4, from += 4;
    if (n & 2) memcpy(to, from, 2 * RBYTES), to += 2, from += 2;
    if (n & 1) memcpy(to, from, RBYTES);
}

/* Return the sum of the entries [k, stop) of a row, of which there is at least one. */
ASP_INLINE V NAME(sum_of)(const asp_args *args, int64_t k, int64_t stop, VM lanes)
{
    const I *indices = args->indices;
    const R *data = args->data, *B = args->B;
    const int64_t ldb = args->ldb;
    V sum = v_zero();
    if (stop - k < SUMS) {
        do sum = v_fma(v_set1(data[k]), v_loadm(B + indices[k] * ldb, lanes), sum);
        while (++k < stop);
        return sum;
    }
    V more[SUMS - 1] = {v_zero(), v_zero(), v_zero()};
    for (; k + SUMS <= stop; k += SUMS) {
        sum = v_fma(v_set1(data[k]), v_loadm(B + indices[k] * ldb, lanes), sum);
        ASP_UNROLL for (int s = 1; s < SUMS; s++)
            more[s - 1] = v_fma(v_set1(data[k + s]), v_loadm(B + indices[k + s] * ldb, lanes), more[s - 1]);
    }
    for (; k < stop; k++) sum = v_fma(v_set1(data[k]), v_loadm(B + indices[k] * ldb, lanes), sum);
    ASP_UNROLL for (int s = 1; s < SUMS; s++) sum = sum + more[s - 1];
    return sum;
}

/* Return the kernel for rows of B of n reals whose sums are ordered in another way (two_columns.c), or NULL. It computes
 * rows of several entries, so that their bits do not depend on the other rows. */
ASP_INLINE asp_kernel NAME(two_columns)(int64_t n)
{
    return RBYTES == 4 && n == 2 ? asp_narrow_kernel(ASP_F32, sizeof(I) == 8, n) : NULL;
}

/* Compute rows of which most are empty. */
static void NAME(listed_rows)(const asp_args *args, int64_t begin, int64_t end, VM lanes, asp_kernel several)
{
    const I *indptr = args->indptr;
    R *C = args->C;
    const int64_t n = args->n_vecs, long_row = args->long_row_length;
    int64_t listed[LISTED];
    for (int64_t stop; begin < end; begin = stop) {
        int64_t n_listed = 0;
        stop = asp_min(begin + LISTED, end);
        for (int64_t i = begin; i < stop; i++) {
            listed[n_listed] = i;
            n_listed += indptr[i + 1] != indptr[i];
        }
        memset(C + begin * n, 0, (size_t)((stop - begin) * n * RBYTES));
        for (int64_t r = 0; r < n_listed; r++) {
            const int64_t i = listed[r], k = indptr[i], last = indptr[i + 1];
            if (last - k > long_row) asp_note_long_row(args, i);
            else if (several && last - k > 1) several(args, i, i + 1);
            else NAME(put_first)(C + i * n, n, lanes, NAME(sum_of)(args, k, last, lanes));
        }
    }
}

static void NAME(short_rows)(const asp_args *args, int64_t begin, int64_t end)
{
    const I *indptr = args->indptr;
    R *C = args->C;
    const int64_t n = args->n_vecs, long_row = args->long_row_length;
    const asp_kernel several = NAME(two_columns)(n);
    /* Non-temporal stores and prefetching are for large operands, whose time is not that of a row. */
    if (args->accumulate || args->places || args->ldc != n || args->stream || args->prefetch) {
        const asp_kernel tiles = asp_kernels_for(RBYTES == 8 ? ASP_F64 : ASP_F32, sizeof(I) == 8, n * RBYTES)->spmm;
        (several ? several : tiles)(args, begin, end);
        return;
    }
    const VM lanes = v_mask((int)n);
    if (asp_is_mostly_empty(args)) {
        NAME(listed_rows)(args, begin, end, lanes, several);
        return;
    }
    /* Rows before `whole_end` are stored as whole vectors, whose other lanes fall on rows that are stored afterwards. */
    const int64_t whole_end = end - (VL - 1) / n;
    for (int64_t i = begin; i < end; i++) {
        const int64_t k = indptr[i], stop = indptr[i + 1];
        if (stop - k > long_row) {
            asp_note_long_row(args, i);
            continue;
        }
        const V sum = k == stop ? v_zero() : NAME(sum_of)(args, k, stop, lanes);
        if (i < whole_end) v_store(C + i * n, sum);
        else NAME(put_first)(C + i * n, n, lanes, sum);
    }
}
