/* y[indices[k]] += data[k] * x[i]: A^T x for one dense column.
 *
 * The file is compiled for the base instruction set on purpose: a fused multiply-add would put the multiplication on
 * the dependency chain of additions to the same element of y.
 *
 * Where rows are short and of varying lengths, a loop over each row's entries spends most of its time on mispredicted
 * branches. There the products of several rows are first written consecutively into a buffer, `chunk` lanes per row at
 * once; lanes beyond the row's end are overwritten by the next row. Then one long loop adds the buffer to y. Products
 * and summation order are the same.
 *
 * With few columns, four sums per column are used in turn, so that an addition need not wait for the previous one.
 */
#include "kernels.h"

enum { UNROLL_FROM = 24 }; /* nonzeros per row from which unrolling is faster than the plain loop */
enum { BUFFER = 1024 };    /* products; small compared to the L1 cache */
enum { LANE_BYTES = 16 };
/* At most so many columns and at least so many nonzeros: use four sums per column. */
enum { NARROW = 64, NARROW_FROM = 4096 };

/* Number of samples, rows per sample; at most 1 row length in FORESEEN may change. */
enum { WINDOWS = 8, WINDOW = 32, FORESEEN = 4 };
/* Rows plus nonzeros up to which processors remember all row ends from one product to the next. Measured on an AMD EPYC
 * (Zen 4): loops over rows take as long as the buffer at 48,000 to 60,000, and 0.66 times as long at 40,000. */
enum { REMEMBERED = 49152 };

/* Return whether branch prediction foresees the ends of loops over rows: rows mostly have the length of the previous
 * row, or there are few. */
#define REGULAR(I)                                                                      \
    static int is_regular_##I(const I *indptr, int64_t begin, int64_t end)              \
    {                                                                                   \
        const int64_t most = end - begin - WINDOW;                                      \
        int n_changes = 0;                                                              \
        if (most < WINDOWS * WINDOW || most + indptr[end] - indptr[begin] < REMEMBERED) return 1; \
        for (int64_t at = 0; at < WINDOWS; at++) {                                      \
            const I *starts = indptr + begin + most * at / WINDOWS;                     \
            for (int r = 1; r < WINDOW; r++)                                            \
                n_changes += starts[r + 1] - starts[r] != starts[r] - starts[r - 1];    \
        }                                                                               \
        return n_changes * FORESEEN < WINDOWS * WINDOW;                                 \
    }
REGULAR(int32_t)
REGULAR(int64_t)

/* Return the lanes of a row that are multiplied at once, by the mean number of nonzeros per row; 0 selects loops over
 * rows, 1 a list of the rows that are not empty. Measured on an Intel Xeon (Sapphire Rapids): 1.2 to 2.6 times as fast with 1 to 10 nonzeros per row, 0.95 to
 * 1.35 with 20. */
static int64_t chunk_for(int64_t n_rows, int64_t n_nonzeros)
{
    return 2 * n_nonzeros <= n_rows    ? 1
           : n_nonzeros <= 2 * n_rows  ? 4
           : n_nonzeros <= 6 * n_rows  ? 8
           : n_nonzeros <= 12 * n_rows ? 16
           : n_nonzeros <= 24 * n_rows ? 32
                                       : 0;
}

/* Add the products of the nonzeros [k, stop) with xi to y, while there are four. */
#define ADD_FOURS(R, I)                                         \
    for (; k + 4 <= stop; k += 4) {                             \
        const R a = data[k] * xi, b = data[k + 1] * xi;         \
        const R c = data[k + 2] * xi, d = data[k + 3] * xi;     \
        const I ia = indices[k], ib = indices[k + 1];           \
        const I ic = indices[k + 2], id = indices[k + 3];       \
        y[ia] += a;                                             \
        y[ib] += b;                                             \
        y[ic] += c;                                             \
        y[id] += d;                                             \
    }

/* `foreseen` computes short rows whose ends are predicted; each further branch per row makes the prediction worse (with
 * 2 nonzeros per row, 17 instead of 13 us). `long` computes long rows, `rows` those that exceed the buffer. */
#define DEFINE(tag, itag, R, I)                                                            \
    ASP_TILE void tag##_##itag##_predicted(const int are_long, const asp_args *args, int64_t begin, int64_t end)      \
    {                                                                                      \
        const I *indptr = args->indptr, *indices = args->indices;                          \
        const R *data = args->data, *x = args->B;                                          \
        R *y = args->C;                                                                    \
        int64_t k = indptr[begin];                                                         \
        for (int64_t i = begin; i < end; i++) {                                            \
            const int64_t stop = indptr[i + 1];                                            \
            if (k == stop) continue; /* x[i] is not read */                                \
            const R xi = x[i];                                                             \
            if (are_long && stop - k >= UNROLL_FROM) {                                     \
                ADD_FOURS(R, I)                                                            \
                if (k == stop) continue;                                                   \
            }                                                                              \
            do {                                                                           \
                ASP_PIN(k);                                                                \
                y[indices[k]] += data[k] * xi;                                             \
            } while (++k < stop);                                                          \
        }                                                                                  \
    }                                                                                      \
    static ASP_NOINLINE void tag##_##itag##_foreseen(const asp_args *args, int64_t begin, int64_t end)  \
    {                                                                                      \
        tag##_##itag##_predicted(0, args, begin, end);                                     \
    }                                                                                      \
    static ASP_NOINLINE void tag##_##itag##_long(const asp_args *args, int64_t begin, int64_t end)      \
    {                                                                                      \
        tag##_##itag##_predicted(1, args, begin, end);                                     \
    }                                                                                      \
    static void tag##_##itag##_rows(const asp_args *args, int64_t begin, int64_t end)      \
    {                                                                                      \
        const I *indptr = args->indptr, *indices = args->indices;                          \
        const R *data = args->data, *x = args->B;                                          \
        R *y = args->C;                                                                    \
        for (int64_t i = begin; i < end; i++) {                                            \
            I k = indptr[i];                                                               \
            const I stop = indptr[i + 1];                                                  \
            if (stop - k >= UNROLL_FROM) {                                                 \
                const R xi = x[i];                                                         \
                ADD_FOURS(R, I)                                                            \
            }                                                                              \
            for (; k < stop; k++) y[indices[k]] += data[k] * x[i];                         \
        }                                                                                  \
    }                                                                                      \
    typedef R tag##_##itag##_lanes                                                         \
        __attribute__((vector_size(LANE_BYTES), aligned(sizeof(R)), may_alias));           \
    /* Multiply rows from `row` on until the buffer is full; return the row behind them. */                            \
    ASP_TILE int64_t tag##_##itag##_multiply(const asp_args *args, R *buffer, int64_t row, int64_t end, int64_t chunk) \
    {                                                                                      \
        typedef tag##_##itag##_lanes V;                                                    \
        enum { LANES = LANE_BYTES / sizeof(R) };                                           \
        const I *indptr = args->indptr;                                                    \
        const R *data = args->data, *x = args->B;                                          \
        const int64_t from = indptr[row], nnz = args->nnz;                                 \
        for (; row < end; row++) {                                                         \
            const int64_t first = indptr[row], stop = indptr[row + 1];                     \
            if (stop - from > BUFFER || first + chunk > nnz || stop + LANES > nnz) break;  \
            R *to = buffer + (first - from);                                               \
            const R *values = data + first;                                                \
            const V xi = (V){0} + x[row];                                                  \
            ASP_UNROLL for (int64_t l = 0; l < chunk; l += LANES) *(V *)(to + l) = *(const V *)(values + l) * xi; \
            for (int64_t l = chunk; l < stop - first; l += LANES) *(V *)(to + l) = *(const V *)(values + l) * xi; \
        }                                                                                  \
        return row;                                                                        \
    }                                                                                      \
    /* Add products to `y`; four consecutive products go to arrays that are `apart` elements from each other. */                \
    ASP_TILE void tag##_##itag##_buffered(const asp_args *args, R *y, int64_t apart, int64_t begin, int64_t end, int64_t chunk) \
    {                                                                                      \
        const I *indptr = args->indptr, *indices = args->indices;                          \
        R *const y1 = y + apart, *const y2 = y1 + apart, *const y3 = y2 + apart;           \
        R buffer[BUFFER + 64] __attribute__((aligned(64)));                                \
        while (begin < end) {                                                              \
            const int64_t row = tag##_##itag##_multiply(args, buffer, begin, end, chunk), from = indptr[begin]; \
            const int64_t n = indptr[row] - from;                                          \
            const I *to = indices + from;                                                  \
            int64_t k = 0;                                                                 \
            for (; k + 4 <= n; k += 4) {                                                   \
                const R a = buffer[k], b = buffer[k + 1], c = buffer[k + 2], d = buffer[k + 3]; \
                const I ia = to[k], ib = to[k + 1], ic = to[k + 2], id = to[k + 3];        \
                y[ia] += a;                                                                \
                y1[ib] += b;                                                               \
                y2[ic] += c;                                                               \
                y3[id] += d;                                                               \
            }                                                                              \
            for (; k < n; k++) y[to[k]] += buffer[k];                                      \
            if (row == begin) tag##_##itag##_rows(args, row, row + 1);                     \
            begin = asp_max(row, begin + 1);                                               \
        }                                                                                  \
    }                                                                                      \
    /* Add rows of which most are empty: the others are listed first, without branches. Rows are added in turn to arrays  \
     * that are `apart` elements from each other. */                                                                     \
    static ASP_NOINLINE void tag##_##itag##_listed(const asp_args *args, R *y, int64_t apart, int64_t begin, int64_t end) \
    {                                                                                      \
        const I *indptr = args->indptr, *indices = args->indices;                          \
        const R *data = args->data, *x = args->B;                                          \
        int64_t listed[BUFFER], n;                                                         \
        for (int64_t stop; begin < end; begin = stop) {                                    \
            stop = asp_min(begin + BUFFER, end), n = 0;                                    \
            for (int64_t i = begin; i < stop; i++) {                                       \
                listed[n] = i;                                                             \
                n += indptr[i + 1] != indptr[i];                                           \
            }                                                                              \
            for (int64_t r = 0; r < n; r++) {                                              \
                R *to = y + (r & 3) * apart;                                               \
                const R xi = x[listed[r]];                                                 \
                int64_t k = indptr[listed[r]];                                             \
                const int64_t last = indptr[listed[r] + 1];                                \
                do to[indices[k]] += data[k] * xi;                                         \
                while (++k < last);                                                        \
            }                                                                              \
        }                                                                                  \
    }                                                                                      \
    static ASP_NOINLINE void tag##_##itag##_narrow(const asp_args *args, int64_t begin, int64_t end, int64_t chunk) \
    {                                                                                      \
        R sums[4 * NARROW] = {0}, *y = args->C;                                            \
        if (is_regular_##I(args->indptr, begin, end)) {                                    \
            const I *indptr = args->indptr, *indices = args->indices;                      \
            const R *data = args->data, *x = args->B;                                      \
            for (int64_t i = begin; i < end; i++) {                                        \
                R *to = sums + (i & 3) * NARROW;                                           \
                for (I k = indptr[i]; k < indptr[i + 1]; k++) to[indices[k]] += data[k] * x[i]; \
            }                                                                              \
        } else if (chunk == 1) tag##_##itag##_listed(args, sums, NARROW, begin, end);      \
        else if (chunk == 4) tag##_##itag##_buffered(args, sums, NARROW, begin, end, 4);   \
        else tag##_##itag##_buffered(args, sums, NARROW, begin, end, 16);                  \
        for (int64_t j = 0; j < args->n_cols; j++)                                         \
            y[j] += (sums[j] + sums[j + NARROW]) + (sums[j + 2 * NARROW] + sums[j + 3 * NARROW]); \
    }                                                                                      \
    static void tag##_##itag(const asp_args *args, int64_t begin, int64_t end)             \
    {                                                                                      \
        const I *indptr = args->indptr;                                                    \
        R *y = args->C;                                                                    \
        const int64_t n_nonzeros = (int64_t)indptr[end] - (int64_t)indptr[begin];          \
        const int64_t chunk = chunk_for(end - begin, n_nonzeros);                          \
        if (args->n_cols <= NARROW && n_nonzeros >= NARROW_FROM && chunk) {                \
            tag##_##itag##_narrow(args, begin, end, chunk);                                \
            return;                                                                        \
        }                                                                                  \
        if (!chunk) tag##_##itag##_long(args, begin, end);                                 \
        else if (is_regular_##I(indptr, begin, end)) tag##_##itag##_foreseen(args, begin, end); \
        else switch (chunk) {                                                              \
        case 1: tag##_##itag##_listed(args, y, 0, begin, end); break;                      \
        case 4: tag##_##itag##_buffered(args, y, 0, begin, end, 4); break;                 \
        case 8: tag##_##itag##_buffered(args, y, 0, begin, end, 8); break;                 \
        case 16: tag##_##itag##_buffered(args, y, 0, begin, end, 16); break;               \
        case 32: tag##_##itag##_buffered(args, y, 0, begin, end, 32);                      \
        }                                                                                  \
    }
#define DEFINE_COMPLEX(tag, itag, R, I)                                                    \
    static void tag##_##itag(const asp_args *args, int64_t begin, int64_t end)             \
    {                                                                                      \
        const I *indptr = args->indptr, *indices = args->indices;                          \
        const R *data = args->data, *x = args->B;                                          \
        for (int64_t i = begin; i < end; i++) {                                            \
            const R re = x[2 * i], im = x[2 * i + 1];                                      \
            const int64_t stop = indptr[i + 1];                                            \
            for (int64_t k = indptr[i]; k < stop; k++) {                                   \
                R *y = (R *)args->C + 2 * (int64_t)indices[k];                             \
                y[0] += data[2 * k] * re - data[2 * k + 1] * im;                           \
                y[1] += data[2 * k] * im + data[2 * k + 1] * re;                           \
            }                                                                              \
        }                                                                                  \
    }
DEFINE(f32, i32, float, int32_t)
DEFINE(f32, i64, float, int64_t)
DEFINE(f64, i32, double, int32_t)
DEFINE(f64, i64, double, int64_t)
DEFINE_COMPLEX(c64, i32, float, int32_t)
DEFINE_COMPLEX(c64, i64, float, int64_t)
DEFINE_COMPLEX(c128, i32, double, int32_t)
DEFINE_COMPLEX(c128, i64, double, int64_t)

const asp_kernel asp_scatter_vector[4][2] = {{f32_i32, f32_i64}, {f64_i32, f64_i64}, {c64_i32, c64_i64}, {c128_i32, c128_i64}};
