/* Complex arithmetic on pairs of reals, in addition to the real operations of vec_*.h. Included once per instruction
 * set, value type and index type. */

/* Store c = sum + i * imaginary, or add it to c if `accumulate`, for `width` reals (two per column). nv vectors hold
 * the sums of the products with the real and the imaginary parts of A. */
ASP_TILE void NAME(join)(R *c, const int nv, const V *sum, const V *imaginary, int width, int accumulate)
{
    R by_real[TILE_MAX * VL], by_imaginary[TILE_MAX * VL];
    ASP_UNROLL for (int v = 0; v < nv; v++) /* not memcpy: taking their address would put the sums in memory */
    {
        v_store(by_real + v * VL, sum[v]);
        v_store(by_imaginary + v * VL, imaginary[v]);
    }
    for (int w = 0; w < nv * VL && w < width; w += 2) {
        const R re = by_real[w] - by_imaginary[w + 1], im = by_real[w + 1] + by_imaginary[w];
        c[w] = accumulate ? c[w] + re : re;
        c[w + 1] = accumulate ? c[w + 1] + im : im;
    }
}

/* Compute turned = i * b for width / 2 complex numbers: (re, im) becomes (-im, re). */
ASP_INLINE void NAME(turn)(R *turned, const R *b, const int width)
{
    for (int w = 0; w < width; w += 2) {
        turned[w] = -b[w + 1];
        turned[w + 1] = b[w];
    }
}

#ifndef ONLY_SPMM
/* Complex SpMV for the rows [begin, end): C[i] = A[i] B for one dense column with unit stride. Two partial sums hide
 * the latency of the additions. */
static void NAME(spmv)(const asp_args *args, int64_t begin, int64_t end)
{
    const I *indptr = args->indptr, *indices = args->indices;
    const R *data = args->data, *x = args->B;
    R *y = args->C;
    for (int64_t i = begin; i < end; i++) {
        int64_t k = indptr[i];
        const int64_t stop = indptr[i + 1];
        if (stop - k > args->long_row_length) {
            asp_note_long_row(args, i);
            continue;
        }
        R re[2] = {0, 0}, im[2] = {0, 0};
        for (; k + 2 <= stop; k += 2)
            for (int two = 0; two < 2; two++) {
                const R *a = data + 2 * (k + two), *b = x + 2 * (int64_t)indices[k + two];
                re[two] += a[0] * b[0] - a[1] * b[1];
                im[two] += a[0] * b[1] + a[1] * b[0];
            }
        if (k < stop) {
            const R *a = data + 2 * k, *b = x + 2 * (int64_t)indices[k];
            re[0] += a[0] * b[0] - a[1] * b[1];
            im[0] += a[0] * b[1] + a[1] * b[0];
        }
        const int add = args->accumulate;
        y[2 * i] = re[0] + re[1] + (add ? y[2 * i] : 0);
        y[2 * i + 1] = im[0] + im[1] + (add ? y[2 * i + 1] : 0);
    }
}
#endif
