/* Twins: rows in turn whose entries are in the same columns, as three unknowns per node of a mesh make them. What they
 * all multiply, a row of the dense operand, is then loaded once for all of them.
 */
#ifndef ASP_TWINS_H
#define ASP_TWINS_H
#include "common.h"

enum {
    TWINS = 3,        /* rows that are computed together */
    TWIN_ENTRIES = 4, /* in each of them, at least */
    TWIN_PLACES = 4,  /* of a matrix that are looked at */
};

/* Entries of each of the TWINS rows from `row` on, all of which exist; 0 unless they are twins. */
#define ASP_TWIN_LENGTH(I)                                                                                         \
    ASP_INLINE int64_t asp_twins_##I(const I *indptr, const I *indices, int64_t row)                               \
    {                                                                                                              \
        const int64_t p = indptr[row], n = (int64_t)indptr[row + 1] - p;                                           \
        if (n < TWIN_ENTRIES) return 0;                                                                            \
        for (int r = 1; r < TWINS; ++r)                                                                            \
            if ((int64_t)indptr[row + r + 1] != p + (r + 1) * n || indices[p + r * n] != indices[p]) return 0;     \
        for (int r = 1; r < TWINS; ++r)                                                                            \
            if (memcmp(indices + p, indices + p + r * n, (size_t)n * sizeof(I)) != 0) return 0;                    \
        return n;                                                                                                  \
    }                                                                                                              \
    /* Whether there are any, from a look at some places: asking at every row costs other matrices up to a tenth. */ \
    ASP_INLINE int asp_has_twins_##I(const I *indptr, const I *indices, int64_t n_rows)                            \
    {                                                                                                              \
        for (int64_t place = 1; place < 2 * TWIN_PLACES; place += 2) {                                             \
            const int64_t row = n_rows * place / (2 * TWIN_PLACES);                                                \
            for (int64_t r = row; r < row + TWINS && r + TWINS <= n_rows; ++r)                                     \
                if (asp_twins_##I(indptr, indices, r)) return 1;                                                   \
        }                                                                                                          \
        return 0;                                                                                                  \
    }
ASP_TWIN_LENGTH(int32_t)
ASP_TWIN_LENGTH(int64_t)
#undef ASP_TWIN_LENGTH
#define ASP_TWINS_OF(I) ASP_TWINS_OF_TYPE(I)
#define ASP_TWINS_OF_TYPE(I) asp_twins_##I
#endif
