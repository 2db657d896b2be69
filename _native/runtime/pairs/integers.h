/* Kernels of integer products, by [dtype - ASP_BOOL][itype]. They have no `extent`. */
#ifndef ASP_INTEGERS_H
#define ASP_INTEGERS_H

#include "kernels.h"

/* Number of products that SpMV adds up before it looks at the ends of rows; less than LONG_ROW_MIN. */
enum { SUMS = 1024 };

/* Least mean number of entries of rows that SpMV adds up row by row. On Zen 4 both loops are equal at 16. */
enum { LONG_ENOUGH = 24 };

#define ASP_DECLARE(x, isa) extern const asp_kernels x##_##isa[5][2];
ASP_EACH_ISA(ASP_DECLARE, asp_integers)
#undef ASP_DECLARE

#endif
