/* Identical rows (supernodes): consecutive rows with the same columns, as a mesh with three unknowns per node has
 * them. Rows of the dense operand are then loaded once for all of them. */
#ifndef ASP_IDENTICAL_ROWS_H
#define ASP_IDENTICAL_ROWS_H
#include "common.h"

enum {
    IDENTICAL_ROWS = 3,        /* rows that are computed together */
    IDENTICAL_ENTRIES = 4, /* minimum number of entries per row */
    IDENTICAL_SAMPLES = 4,  /* number of positions of a matrix that are sampled */
};

/* Return the number of entries of each of the IDENTICAL_ROWS existing rows from `row` on if the rows are identical, else 0. */
#define ASP_IDENTICAL_ROWS_LENGTH(I)                                                                                         \
    ASP_INLINE int64_t asp_identical_rows_##I(const I *indptr, const I *indices, int64_t row)                               \
    {                                                                                                              \
        const int64_t p = indptr[row], n = (int64_t)indptr[row + 1] - p;                                           \
        if (n < IDENTICAL_ENTRIES) return 0;                                                                            \
        for (int r = 1; r < IDENTICAL_ROWS; ++r)                                                                            \
            if ((int64_t)indptr[row + r + 1] != p + (r + 1) * n || indices[p + r * n] != indices[p]) return 0;     \
        for (int r = 1; r < IDENTICAL_ROWS; ++r)                                                                            \
            if (memcmp(indices + p, indices + p + r * n, (size_t)n * sizeof(I)) != 0) return 0;                    \
        return n;                                                                                                  \
    }                                                                                                              \
    /* Return whether any sampled position has identical rows. Testing every row would slow others by up to 10 %. */ \
    ASP_INLINE int asp_has_identical_rows_##I(const I *indptr, const I *indices, int64_t n_rows)                            \
    {                                                                                                              \
        for (int64_t place = 1; place < 2 * IDENTICAL_SAMPLES; place += 2) {                                             \
            const int64_t row = n_rows * place / (2 * IDENTICAL_SAMPLES);                                                \
            for (int64_t r = row; r < row + IDENTICAL_ROWS && r + IDENTICAL_ROWS <= n_rows; ++r)                                     \
                if (asp_identical_rows_##I(indptr, indices, r)) return 1;                                                   \
        }                                                                                                          \
        return 0;                                                                                                  \
    }
ASP_IDENTICAL_ROWS_LENGTH(int32_t)
ASP_IDENTICAL_ROWS_LENGTH(int64_t)
#undef ASP_IDENTICAL_ROWS_LENGTH
#define ASP_IDENTICAL_ROWS_OF(I) ASP_IDENTICAL_ROWS_OF_TYPE(I)
#define ASP_IDENTICAL_ROWS_OF_TYPE(I) asp_identical_rows_##I
#endif
