/* Row-major copies of dense matrices. Column-major matrices are transposed in tiles of TILE x TILE, so that every
 * cache line that is fetched is used completely, whatever the leading dimension. */
#include "common.h"

#include "dense_api.h"
#include "matmul_api.h"
#include "pool_api.h"

enum { TILE = 16 };

typedef struct {
    int64_t n_rows, n_cols, row_step, column_step, ld;
    const char *from;
    char *to;
} dense_copy;

/* Copy the elements of rows [begin, end) and columns [first, last) one by one, along the longer extent: loops of few steps
 * take most of their time at their ends. */
#define BY_ELEMENT(T)                                                                                     \
    static void elements_##T(const dense_copy *d, int64_t begin, int64_t end, int64_t first, int64_t last) \
    {                                                                                                     \
        const int64_t row_step = d->row_step, column_step = d->column_step, ld = d->ld;                   \
        const T *from = (const T *)d->from + begin * row_step + first * column_step;                      \
        T *to = (T *)d->to + begin * ld + first;                                                          \
        const int64_t n = end - begin, n_cols = last - first;                                             \
        if (n_cols < n)                                                                                   \
            for (int64_t j = 0; j < n_cols; ++j)                                                          \
                for (int64_t i = 0; i < n; ++i) to[i * ld + j] = from[i * row_step + j * column_step];    \
        else                                                                                              \
            for (int64_t i = 0; i < n; ++i)                                                               \
                for (int64_t j = 0; j < n_cols; ++j) to[i * ld + j] = from[i * row_step + j * column_step]; \
    }

/* Transpose a whole tile by 4 x 4 blocks in registers. */
#define BY_BLOCK(T)                                                                                       \
    typedef T quad_##T __attribute__((vector_size(4 * sizeof(T))));                                       \
    typedef T quadu_##T __attribute__((vector_size(4 * sizeof(T)), aligned(sizeof(T)), may_alias));       \
    ASP_INLINE void block_##T(const T *from, int64_t step, T *to, int64_t ld)                             \
    {                                                                                                     \
        const quad_##T a = *(const quadu_##T *)from, b = *(const quadu_##T *)(from + step);               \
        const quad_##T c = *(const quadu_##T *)(from + 2 * step), d = *(const quadu_##T *)(from + 3 * step); \
        for (int lane = 0; lane < 4; ++lane)                                                              \
            *(quadu_##T *)(to + lane * ld) = (quad_##T){a[lane], b[lane], c[lane], d[lane]};              \
    }                                                                                                     \
    static void tile_##T(const dense_copy *d, int64_t i, int64_t j)                                       \
    {                                                                                                     \
        for (int64_t jj = j; jj < j + TILE; jj += 4)                                                      \
            for (int64_t ii = i; ii < i + TILE; ii += 4)                                                  \
                block_##T((const T *)d->from + ii + jj * d->column_step, d->column_step,                  \
                          (T *)d->to + ii * d->ld + jj, d->ld);                                           \
    }

/* Pool task: copy the rows of the tile rows [begin, end). */
#define ROWS(T)                                                                                           \
    static void rows_##T(void *context, int64_t begin, int64_t end)                                       \
    {                                                                                                     \
        const dense_copy *d = context;                                                                    \
        begin *= TILE;                                                                                    \
        end = asp_min(end * TILE, d->n_rows);                                                             \
        for (int64_t i = begin; i < end; i += TILE)                                                       \
            for (int64_t j = 0; j < d->n_cols; j += TILE) {                                               \
                const int64_t i_end = asp_min(i + TILE, end), j_end = asp_min(j + TILE, d->n_cols);       \
                if (i_end - i == TILE && j_end - j == TILE && d->row_step == 1) tile_##T(d, i, j);        \
                else elements_##T(d, i, i_end, j, j_end);                                                 \
            }                                                                                             \
    }

typedef struct {
    double re, im;
} pair;

BY_ELEMENT(int32_t)
BY_ELEMENT(int64_t)
BY_ELEMENT(pair)
BY_BLOCK(int32_t)
BY_BLOCK(int64_t)
static void tile_pair(const dense_copy *d, int64_t i, int64_t j) { elements_pair(d, i, i + TILE, j, j + TILE); }
ROWS(int32_t)
ROWS(int64_t)
ROWS(pair)

int asp_dense_rows(int item_bytes, int64_t n_rows, int64_t n_cols, const void *from, int64_t row_step,
                   int64_t column_step, void *to, int64_t ld, int n_threads)
{
    const asp_task task = item_bytes == 4 ? rows_int32_t : item_bytes == 8 ? rows_int64_t : rows_pair;
    if (item_bytes != 4 && item_bytes != 8 && item_bytes != 16) return 1;
    if (n_rows <= 0 || n_cols <= 0) return 0;
    dense_copy copy = {n_rows, n_cols, row_step, column_step, ld, from, to};
    const int64_t n_items = (n_rows + TILE - 1) / TILE;
    const double serial_ns = 0.1 * item_bytes * (double)n_rows * (double)n_cols;
    const int allowed = n_threads > 0 ? n_threads : asp_max_threads();
    const int64_t least = 1 + (int64_t)(1e4 / (serial_ns / (double)n_items + 1e-3));
    if (allowed <= 1 || serial_ns < 2e4 || n_items <= least) task(&copy, 0, n_items);
    else asp_parallel(task, &copy, n_items, least, asp_max(least, n_items / (8 * allowed)), allowed, serial_ns);
    return 0;
}
