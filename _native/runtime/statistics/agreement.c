/* Comparison of two products A @ X of floating-point numbers, row by row, within the bounds of rounding.
 *
 * Two sums of the same n products, in any order, differ by at most about n * epsilon * sum |a| |x|. The limits are those
 * of autosparse/tuning/memory/agreement.py, which explains a difference; here a result is only accepted. */
#include "common.h"

#include <float.h>
#include <math.h>

#include "agreement_api.h"

/* Factor on the limits for their own rounding, and number of additional products that every row is granted. */
static const double SLACK = 1.01, EXTRA_PRODUCTS = 4.0;
/* Number of partial sums of a row, so that additions do not wait for each other. */
enum { N_SUMS = 4 };

/* Define the absolute value of a number of one type, in double precision. A complex one overflows to infinity early. */
#define REAL_SIZE(x) fabs((double)(x))
#define COMPLEX_SIZE(x) sqrt((double)__real__(x) * __real__(x) + (double)__imag__(x) * __imag__(x))

/* Define the comparison for values of type T: SIZE gives an absolute value, and each product counts as TERMS real
 * products of the type whose epsilon, smallest and largest number are named. */
#define DEFINE(code, T, SIZE, TERMS, EPSILON, TINY, LARGEST)                                                         \
    static int agree_##code(int itype, int64_t n_rows, int64_t n_cols, const void *indptr, const T *values,          \
                            const T *found, const T *wanted, double largest)                                         \
    {                                                                                                                \
        int64_t p = asp_index_at(itype, indptr, 0);                                                                  \
        for (int64_t row = 0; row < n_rows; row++) {                                                                 \
            const int64_t end = asp_index_at(itype, indptr, row + 1);                                                \
            const double terms = (double)(end - p) * (TERMS) + EXTRA_PRODUCTS;                                       \
            double sums[N_SUMS] = {0.0, 0.0, 0.0, 0.0};                                                              \
            for (; p + N_SUMS <= end; p += N_SUMS)                                                                   \
                for (int at = 0; at < N_SUMS; at++) sums[at] += SIZE(values[p + at]);                                \
            for (; p < end; p++) sums[0] += SIZE(values[p]);                                                         \
            const double sum = largest * (sums[0] + sums[1] + sums[2] + sums[3]);                                    \
            const double limit = terms * (EPSILON) * SLACK * sum + terms * (TINY);                                   \
            if (!(limit < (LARGEST) / 4.0)) return 0;                                                                \
            const T *mine = found + row * n_cols, *theirs = wanted + row * n_cols;                                   \
            int n_near = 0;                                                                                          \
            /* A value that is no number compares as false. */                                                       \
            for (int64_t at = 0; at < n_cols; at++) n_near += SIZE(mine[at] - theirs[at]) <= limit;                  \
            if (n_near != n_cols) return 0;                                                                          \
        }                                                                                                            \
        return 1;                                                                                                    \
    }
DEFINE(0, float, REAL_SIZE, 1.0, FLT_EPSILON, FLT_MIN, FLT_MAX)
DEFINE(1, double, REAL_SIZE, 1.0, DBL_EPSILON, DBL_MIN, DBL_MAX)
DEFINE(2, float _Complex, COMPLEX_SIZE, 2.8284271247461903, FLT_EPSILON, FLT_MIN, FLT_MAX)
DEFINE(3, double _Complex, COMPLEX_SIZE, 2.8284271247461903, DBL_EPSILON, DBL_MIN, DBL_MAX)

/* Return 1 if all rows of `found` and `wanted`, of `n_cols` numbers, differ by no more than rounding allows, and 0 if one
 * differs, is not finite or has a limit near the largest number. `largest` bounds the absolute values of X. */
int asp_rows_agree(int dtype, int itype, int64_t n_rows, int64_t n_cols, const void *indptr, const void *values,
                   const void *found, const void *wanted, double largest)
{
    switch (dtype) {
    case ASP_F32: return agree_0(itype, n_rows, n_cols, indptr, values, found, wanted, largest);
    case ASP_F64: return agree_1(itype, n_rows, n_cols, indptr, values, found, wanted, largest);
    case ASP_C64: return agree_2(itype, n_rows, n_cols, indptr, values, found, wanted, largest);
    case ASP_C128: return agree_3(itype, n_rows, n_cols, indptr, values, found, wanted, largest);
    default: return 0;
    }
}
