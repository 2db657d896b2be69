/* Kernels of one instruction set, integer type and index type: SpMM, and A^T B by scattering. The includer defines E
 * (an unsigned type), IS_BOOL, I, NAME and VBYTES (of the widest vectors, which must be 16, 32 or 64).
 *
 * Rows of C are computed in tiles of `nv` vectors of `lanes` columns. The last vector of a row ends at the last column
 * and may overlap the vector before it, so that rows of any width need no other loop. All vectors of a tile are loaded
 * before the first is stored, which makes the overlapping columns right.
 */

#if IS_BOOL
/* Values other than 0 and 1 mean true, as in NumPy. */
#define TRUTH(V, x) ((V)((x) != 0) & 1)
#define MULTIPLY_ADD(V, sum, a, b) ((sum) | ((a) & TRUTH(V, b)))
#define FACTOR(x) ((E)((x) != 0))
#define SUM uint64_t
#define PRODUCT(a, b) (((a) != 0) & ((b) != 0))
#define ROW_SUM(so_far, n) ((E)((so_far) | ((n) != 0)))
#else
#define MULTIPLY_ADD(V, sum, a, b) ((sum) + (a) * (b))
#define FACTOR(x) (x)
#define SUM E
#define PRODUCT(a, b) (E)(1u * (a) * (b)) /* 1u: products of 16 bits do not fit into an int */
#define ROW_SUM(so_far, sum) ((E)((so_far) + (sum)))
#endif
#define VECTOR_OF(bytes) NAME(v##bytes)

/* Define the tiles of vectors of `bytes` bytes. `gap` is the distance in columns from the first vector to the last. */
#define TILES(bytes)                                                                                               \
    typedef E VECTOR_OF(bytes) __attribute__((vector_size(bytes)));                                                \
    ASP_TILE void NAME(spmm_tile_##bytes)(const int nv, const asp_args *args, int64_t begin, int64_t end, int64_t j, \
                                          int64_t gap)                                                             \
    {                                                                                                              \
        typedef VECTOR_OF(bytes) V;                                                                                \
        const int64_t lanes = bytes / (int64_t)sizeof(E), ldb = args->ldb;                                         \
        const I *indptr = args->indptr, *indices = args->indices;                                                  \
        const E *data = args->data, *B = (const E *)args->B + j;                                                   \
        for (int64_t i = begin; i < end; i++) {                                                                    \
            const int64_t stop = indptr[i + 1];                                                                    \
            E *c = (E *)args->C + i * args->ldc + j;                                                               \
            V sum[MAX_VECTORS] = {{0}}, x;                                                                                   \
            if (stop - indptr[i] > args->long_row_length) {                                                           \
                if (j == 0) asp_note_long_row(args, i);                                                               \
                continue;                                                                                          \
            }                                                                                                      \
            if (args->accumulate) {                                                                                \
                ASP_UNROLL for (int v = 0; v < nv; v++)                                                            \
                    memcpy(&sum[v], c + (v < nv - 1 ? v * lanes : gap), sizeof x);                                 \
            }                                                                                                      \
            for (int64_t k = indptr[i]; k < stop; k++) {                                                           \
                const E *b = B + (int64_t)indices[k] * ldb;                                                        \
                const V a = (V){0} + FACTOR(data[k]);                                                              \
                ASP_UNROLL for (int v = 0; v < nv; v++)                                                            \
                {                                                                                                  \
                    memcpy(&x, b + (v < nv - 1 ? v * lanes : gap), sizeof x);                                      \
                    sum[v] = MULTIPLY_ADD(V, sum[v], a, x);                                                        \
                }                                                                                                  \
            }                                                                                                      \
            ASP_UNROLL for (int v = 0; v < nv; v++) memcpy(c + (v < nv - 1 ? v * lanes : gap), &sum[v], sizeof x); \
        }                                                                                                          \
    }                                                                                                              \
    ASP_TILE void NAME(scatter_tile_##bytes)(const int nv, const asp_args *args, int64_t begin, int64_t end,       \
                                             int64_t j, int64_t gap)                                               \
    {                                                                                                              \
        typedef VECTOR_OF(bytes) V;                                                                                \
        const int64_t lanes = bytes / (int64_t)sizeof(E), ldc = args->ldc;                                         \
        const I *indptr = args->indptr, *indices = args->indices;                                                  \
        const E *data = args->data;                                                                                \
        for (int64_t i = begin; i < end; i++) {                                                                    \
            const E *b = (const E *)args->B + i * args->ldb + j;                                                   \
            V row[MAX_VECTORS], x[MAX_VECTORS];                                                                                        \
            ASP_UNROLL for (int v = 0; v < nv; v++) memcpy(&row[v], b + (v < nv - 1 ? v * lanes : gap), sizeof(V)); \
            for (int64_t k = indptr[i], stop = indptr[i + 1]; k < stop; k++) {                                     \
                E *c = (E *)args->C + (int64_t)indices[k] * ldc + j;                                               \
                const V a = (V){0} + FACTOR(data[k]);                                                              \
                ASP_UNROLL for (int v = 0; v < nv; v++)                                                            \
                {                                                                                                  \
                    memcpy(&x[v], c + (v < nv - 1 ? v * lanes : gap), sizeof(V));                                  \
                    x[v] = MULTIPLY_ADD(V, x[v], a, row[v]);                                                       \
                }                                                                                                  \
                ASP_UNROLL for (int v = 0; v < nv; v++) memcpy(c + (v < nv - 1 ? v * lanes : gap), &x[v], sizeof(V)); \
            }                                                                                                      \
        }                                                                                                          \
    }

/* Call the tile function for n vectors, a compile-time constant in each case. */
#define CASE(kind, bytes, n) \
    case n: NAME(kind##_tile_##bytes)(n, args, begin, end, j, gap); break;
#define FEW_CASES(kind, bytes) CASE(kind, bytes, 1) CASE(kind, bytes, 2)
#define MANY_CASES(kind, bytes) FEW_CASES(kind, bytes) CASE(kind, bytes, 3) CASE(kind, bytes, 4)
#define MAX_VECTORS 4

TILES(16)
#if VBYTES >= 32
TILES(32)
#endif
#if VBYTES == 64
TILES(64)
#endif
TILES(8)
#if EBYTES <= 4
TILES(4)
#endif
#if EBYTES <= 2
TILES(2)
#endif
#if EBYTES == 1
TILES(1)
#endif

#define WIDE(bytes)                                                                                          \
    if (width >= bytes) {                                                                                    \
        const int64_t lanes = bytes / EBYTES, n = (args->n_vecs + lanes - 1) / lanes;                        \
        int64_t left = n, j = 0;                                                                             \
        for (int64_t passes = (n + MAX_VECTORS - 1) / MAX_VECTORS; passes > 0; passes--) {                 \
            const int64_t nv = (left + passes - 1) / passes;                                                 \
            const int64_t gap = passes > 1 ? (nv - 1) * lanes : args->n_vecs - j - lanes;                    \
            switch (nv) { MANY_CASES(KIND, bytes) }                                                          \
            j += nv * lanes;                                                                                 \
            left -= nv;                                                                                      \
        }                                                                                                    \
        return;                                                                                              \
    }
#define NARROW(bytes)                                                                                        \
    if (width >= bytes) {                                                                                    \
        const int64_t j = 0, gap = args->n_vecs - bytes / EBYTES;                                            \
        switch (gap ? 2 : 1) { FEW_CASES(KIND, bytes) }                                                      \
        return;                                                                                              \
    }

/* Choose the widest vectors that a row fills; a narrower row takes one or two of them. */
#define BY_WIDTH                                          \
    const int64_t width = args->n_vecs * (int64_t)EBYTES; \
    BY_WIDTH_64 BY_WIDTH_32 BY_WIDTH_16 NARROW(8) BY_WIDTH_4 BY_WIDTH_2 BY_WIDTH_1
#if VBYTES == 64
#define BY_WIDTH_64 WIDE(64)
#define BY_WIDTH_32 NARROW(32)
#define BY_WIDTH_16 NARROW(16)
#elif VBYTES == 32
#define BY_WIDTH_64
#define BY_WIDTH_32 WIDE(32)
#define BY_WIDTH_16 NARROW(16)
#else
#define BY_WIDTH_64
#define BY_WIDTH_32
#define BY_WIDTH_16 WIDE(16)
#endif
#if EBYTES <= 4
#define BY_WIDTH_4 NARROW(4)
#else
#define BY_WIDTH_4
#endif
#if EBYTES <= 2
#define BY_WIDTH_2 NARROW(2)
#else
#define BY_WIDTH_2
#endif
#if EBYTES == 1
#define BY_WIDTH_1 NARROW(1)
#else
#define BY_WIDTH_1
#endif

#define KIND spmm
static void NAME(spmm)(const asp_args *args, int64_t begin, int64_t end) { BY_WIDTH }
#undef KIND
#define KIND scatter
static void NAME(scatter)(const asp_args *args, int64_t begin, int64_t end) { BY_WIDTH }
#undef KIND

/* Compute C[i] = A[i] B for one dense column with unit stride, in one loop over the entries of each row.
 *
 * Products stay in general registers: compilers would make vectors of them, which take 1.2 to 1.4 times as long (Zen 4,
 * rows of 28 to 48 entries). */
static ASP_NOINLINE void NAME(spmv_rows)(const asp_args *args, int64_t begin, int64_t end)
{
    const I *indptr = args->indptr, *indices = args->indices;
    const E *data = args->data, *x = args->B;
    E *y = args->C;
    for (int64_t i = begin; i < end; i++) {
        const int64_t stop = indptr[i + 1];
        int64_t k = indptr[i];
        SUM sums[2] = {0, 0};
        if (stop - k > args->long_row_length) {
            asp_note_long_row(args, i);
            continue;
        }
        for (; k + 4 <= stop; k += 4) {
            ASP_UNROLL for (int at = 0; at < 4; at++)
            {
                SUM product = PRODUCT(data[k + at], x[indices[k + at]]);
                ASP_PIN(product);
                sums[at % 2] += product;
            }
        }
        for (; k < stop; k++) sums[0] += PRODUCT(data[k], x[indices[k]]);
        y[i] = ROW_SUM(args->accumulate ? y[i] : 0, sums[0] + sums[1]);
    }
}

/* Compute C[i] = A[i] B for one dense column with unit stride.
 *
 * Sums of all products so far are written to `sums`, and the sum of a row is the difference of two of them, which is
 * exact because integers wrap around. So no loop runs over the entries of one row: such loops spend most of their time
 * on mispredicted branches where rows are short. Booleans are counted.
 */
static ASP_NOINLINE void NAME(spmv_sums)(const asp_args *args, int64_t begin, int64_t end)
{
    const I *indptr = args->indptr, *indices = args->indices;
    const E *data = args->data, *x = args->B;
    E *y = args->C;
    SUM sums[SUMS + 1], sum = 0, before = 0; /* before: the sum at the end of the row before `row` */
    int64_t row = begin, k = indptr[begin];
    const int64_t last = indptr[end];
    while (row < end) {
        if (indptr[row + 1] - indptr[row] > args->long_row_length) {
            asp_note_long_row(args, row);
            k = indptr[++row];
            before = sum;
            continue;
        }
        const int64_t from = k, n = asp_min(SUMS, last - from);
        sums[0] = sum;
        const E *values = data + from;
        const I *columns = indices + from;
        int64_t at = 0;
        for (; at + 4 <= n; at += 4) { /* the sum of four is one addition to the sum of all */
            const SUM a = PRODUCT(values[at], x[columns[at]]), b = a + PRODUCT(values[at + 1], x[columns[at + 1]]),
                      c = PRODUCT(values[at + 2], x[columns[at + 2]]), d = c + PRODUCT(values[at + 3], x[columns[at + 3]]);
            sums[at + 1] = sum + a;
            sums[at + 2] = sum + b;
            sums[at + 3] = sum + b + c;
            sum += b + d;
            sums[at + 4] = sum;
        }
        for (; at < n; at++) {
            sum += PRODUCT(values[at], x[columns[at]]);
            sums[at + 1] = sum;
        }
        for (k = from + n; row < end && indptr[row + 1] <= k; row++) {
            const SUM now = sums[indptr[row + 1] - from];
            y[row] = ROW_SUM(args->accumulate ? y[row] : 0, now - before);
            before = now;
        }
    }
}

/* Compute C[i] = A[i] B by the loop that suits the mean length of the rows. */
static void NAME(spmv)(const asp_args *args, int64_t begin, int64_t end)
{
    const I *indptr = args->indptr;
    if ((int64_t)(indptr[end] - indptr[begin]) >= LONG_ENOUGH * (end - begin)) NAME(spmv_rows)(args, begin, end);
    else NAME(spmv_sums)(args, begin, end);
}

#undef TRUTH
#undef SUM
#undef PRODUCT
#undef ROW_SUM
#undef MULTIPLY_ADD
#undef FACTOR
#undef VECTOR_OF
#undef TILES
#undef CASE
#undef FEW_CASES
#undef MANY_CASES
#undef MAX_VECTORS
#undef WIDE
#undef NARROW
#undef BY_WIDTH
#undef BY_WIDTH_64
#undef BY_WIDTH_32
#undef BY_WIDTH_16
#undef BY_WIDTH_4
#undef BY_WIDTH_2
#undef BY_WIDTH_1
