/* Kernels for matrices with few entries per row. */
#ifndef ASP_SHORT_ROWS_H
#define ASP_SHORT_ROWS_H
#include "kernels.h"

enum { MIN_LISTED_ROWS = 4096 }; /* fewer rows are predicted in repeated products */

/* Return whether there are many rows, and most are empty: at most three entries in four rows. */
ASP_INLINE int asp_is_mostly_empty(const asp_args *args)
{
    return args->n_rows >= MIN_LISTED_ROWS && 4 * args->nnz <= 3 * args->n_rows;
}

/* Return the kernel of C = A B where rows of A have few entries and rows of B are short, and NULL elsewhere. */
asp_kernel asp_short_rows_kernel(int dtype, int itype, const asp_args *args);
#endif
