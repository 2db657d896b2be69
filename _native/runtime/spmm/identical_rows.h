/* Identical rows: rows in turn whose entries are in the same columns, as three unknowns per node of a mesh make them. What they
 * all multiply, a row of the dense operand, is then loaded once for all of them.
 */
#ifndef ASP_IDENTICAL_ROWS_H
#define ASP_IDENTICAL_ROWS_H
#include "common.h"

enum {
    IDENTICAL_ROWS = 3,        /* rows that are computed together */
    IDENTICAL_ENTRIES = 4, /* in each of them, at least */
    IDENTICAL_SAMPLES = 4,  /* of a matrix that are looked at */
};

/* Entries of each of the IDENTICAL_ROWS rows from `row` on, all of which exist; 0 unless they are identical rows. */
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
    /* Whether there are any, from a look at some places: asking at every row costs other matrices up to a tenth. */ \
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
