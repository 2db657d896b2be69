/* Vectors of W values of type R and the operations of the graph kernels on them (no include guard; see graph_types.h).
 * W is at least 4: where registers are narrower, the compiler splits the operations. */
#undef W
#undef VEC
#undef VECU
#undef VINT
#undef QUAD
#undef QUADU
#undef SELECT
#undef SELECT4

#if IS_FLOAT
#define W (VBYTES / 4)
#elif VBYTES == 16
#define W 4
#else
#define W (VBYTES / 8)
#endif

typedef R NAME(vec) __attribute__((vector_size(W * sizeof(R))));
typedef R NAME(vecu) __attribute__((vector_size(W * sizeof(R)), aligned(sizeof(R)), may_alias));
typedef RINT NAME(vint) __attribute__((vector_size(W * sizeof(R))));
typedef RINT NAME(vintu) __attribute__((vector_size(W * sizeof(R)), aligned(sizeof(R)), may_alias));
typedef R NAME(quad) __attribute__((vector_size(4 * sizeof(R))));
typedef R NAME(quadu) __attribute__((vector_size(4 * sizeof(R)), aligned(sizeof(R)), may_alias));
#define VEC NAME(vec)
#define VECU NAME(vecu)
#define VINT NAME(vint)
#define QUAD NAME(quad)
#define QUADU NAME(quadu)
typedef RINT NAME(qint) __attribute__((vector_size(4 * sizeof(R))));
/* Select the lanes of a where the mask is all ones, and of b where it is zero. */
#define SELECT(mask, a, b) ((VEC)(((VINT)(a) & (mask)) | ((VINT)(b) & ~(mask))))

#define SELECT4(mask, a, b) ((QUAD)(((NAME(qint))(a) & (mask)) | ((NAME(qint))(b) & ~(mask))))

#define LOAD(p) ((VEC) * (const VECU *)(p))
#define STORE(p, v) (*(VECU *)(p) = (VECU)(v))
#define LOAD4(p) ((QUAD) * (const QUADU *)(p))
#define STORE4(p, v) (*(QUADU *)(p) = (QUADU)(v))
#undef SPLAT
#define SPLAT(x) ((VEC){0} + (R)(x))

ASP_INLINE QUAD NAME(fold)(VEC v)
{ /* return the sums of the lanes with equal index modulo 4 */
#if __has_builtin(__builtin_shufflevector)
#if (IS_FLOAT && VBYTES == 64)
    typedef R half __attribute__((vector_size(8 * sizeof(R))));
    half h = __builtin_shufflevector(v, v, 0, 1, 2, 3, 4, 5, 6, 7) +
             __builtin_shufflevector(v, v, 8, 9, 10, 11, 12, 13, 14, 15);
    return __builtin_shufflevector(h, h, 0, 1, 2, 3) + __builtin_shufflevector(h, h, 4, 5, 6, 7);
#elif (IS_FLOAT && VBYTES == 32) || (!IS_FLOAT && VBYTES == 64)
    return __builtin_shufflevector(v, v, 0, 1, 2, 3) + __builtin_shufflevector(v, v, 4, 5, 6, 7);
#else
    return v;
#endif
#else
    QUAD sum = {0};
    for (int lane = 0; lane < W; ++lane) sum[lane % 4] += v[lane];
    return sum;
#endif
}

ASP_INLINE QUAD NAME(sums4)(QUAD a, QUAD b, QUAD c, QUAD d)
{ /* return (sum of a, sum of b, sum of c, sum of d) */
#if __has_builtin(__builtin_shufflevector)
    QUAD ab = __builtin_shufflevector(a, b, 0, 4, 1, 5) + __builtin_shufflevector(a, b, 2, 6, 3, 7);
    QUAD cd = __builtin_shufflevector(c, d, 0, 4, 1, 5) + __builtin_shufflevector(c, d, 2, 6, 3, 7);
    return __builtin_shufflevector(ab, cd, 0, 1, 4, 5) + __builtin_shufflevector(ab, cd, 2, 3, 6, 7);
#else
    return (QUAD){a[0] + a[1] + a[2] + a[3], b[0] + b[1] + b[2] + b[3], c[0] + c[1] + c[2] + c[3],
                  d[0] + d[1] + d[2] + d[3]};
#endif
}

/* Return (sum of the lanes of a, of b, of c, of d). */
ASP_INLINE QUAD NAME(fold4)(VEC a, VEC b, VEC c, VEC d)
{
#if __has_builtin(__builtin_shufflevector) && IS_FLOAT && VBYTES == 64
    VEC ab = __builtin_shufflevector(a, b, 0, 1, 2, 3, 4, 5, 6, 7, 16, 17, 18, 19, 20, 21, 22, 23) +
             __builtin_shufflevector(a, b, 8, 9, 10, 11, 12, 13, 14, 15, 24, 25, 26, 27, 28, 29, 30, 31);
    VEC cd = __builtin_shufflevector(c, d, 0, 1, 2, 3, 4, 5, 6, 7, 16, 17, 18, 19, 20, 21, 22, 23) +
             __builtin_shufflevector(c, d, 8, 9, 10, 11, 12, 13, 14, 15, 24, 25, 26, 27, 28, 29, 30, 31);
    VEC all = __builtin_shufflevector(ab, cd, 0, 1, 2, 3, 8, 9, 10, 11, 16, 17, 18, 19, 24, 25, 26, 27) +
              __builtin_shufflevector(ab, cd, 4, 5, 6, 7, 12, 13, 14, 15, 20, 21, 22, 23, 28, 29, 30, 31);
    all += __builtin_shufflevector(all, all, 2, 3, 0, 1, 6, 7, 4, 5, 10, 11, 8, 9, 14, 15, 12, 13);
    all += __builtin_shufflevector(all, all, 1, 0, 3, 2, 5, 4, 7, 6, 9, 8, 11, 10, 13, 12, 15, 14);
    return __builtin_shufflevector(all, all, 0, 4, 8, 12);
#elif __has_builtin(__builtin_shufflevector) && IS_FLOAT && VBYTES == 32
    VEC ab = __builtin_shufflevector(a, b, 0, 1, 8, 9, 4, 5, 12, 13) +
             __builtin_shufflevector(a, b, 2, 3, 10, 11, 6, 7, 14, 15);
    VEC cd = __builtin_shufflevector(c, d, 0, 1, 8, 9, 4, 5, 12, 13) +
             __builtin_shufflevector(c, d, 2, 3, 10, 11, 6, 7, 14, 15);
    VEC all = __builtin_shufflevector(ab, cd, 0, 2, 8, 10, 4, 6, 12, 14) +
              __builtin_shufflevector(ab, cd, 1, 3, 9, 11, 5, 7, 13, 15);
    return NAME(fold)(all);
#else
    return NAME(sums4)(NAME(fold)(a), NAME(fold)(b), NAME(fold)(c), NAME(fold)(d));
#endif
}

ASP_INLINE VINT NAME(tail_mask)(int64_t tail)
{ /* return a mask of the last `tail` lanes */
    VINT lane;
    for (int l = 0; l < W; ++l) lane[l] = (RINT)l;
    return (VINT)(lane >= (VINT){0} + (RINT)(W - tail));
}

/* Return exp(x) for x <= 0 or nan, with an error below 2 ulp. Subnormal results lose precision; smaller ones are 0. */
ASP_INLINE VEC NAME(vexp)(VEC x)
{
#if IS_FLOAT
    const R lowest = -104.0f, log2e = 1.44269504f, magic = 12582912.0f;
    const R ln2_high = 0.693359375f, ln2_low = -2.12194440e-4f;
    static const R taylor[] = {1.0f / 5040, 1.0f / 720, 1.0f / 120, 1.0f / 24, 1.0f / 6, 0.5f, 1.0f, 1.0f};
    const int bits = 23, bias = 127;
#else
    const R lowest = -746.0, log2e = 1.4426950408889634, magic = 6755399441055744.0;
    const R ln2_high = 6.93147180369123816490e-01, ln2_low = 1.90821492927058770002e-10;
    static const R taylor[] = {1.0 / 6227020800.0, 1.0 / 479001600, 1.0 / 39916800, 1.0 / 3628800, 1.0 / 362880,
                               1.0 / 40320,        1.0 / 5040,      1.0 / 720,      1.0 / 120,     1.0 / 24,
                               1.0 / 6,            0.5,             1.0,            1.0};
    const int bits = 52, bias = 1023;
#endif
    x = SELECT((VINT)(x < lowest), SPLAT(lowest), x);
    VEC shifted = x * log2e + magic;
    VEC n = shifted - magic;
    VINT k = (VINT)shifted - (VINT)SPLAT(magic);
    VEC r = (x - n * ln2_high) - n * ln2_low;
    VEC y = SPLAT(taylor[0]);
    for (unsigned t = 1; t < sizeof taylor / sizeof taylor[0]; ++t) y = y * r + taylor[t];
    VINT half = k >> 1; /* two factors, because 2^k alone may be subnormal */
    return y * (VEC)((half + bias) << bits) * (VEC)((k - half + bias) << bits);
}
