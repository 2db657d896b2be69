/* Kernels for a product with 2 to 7 columns. */
#ifndef ASP_NARROW_H
#define ASP_NARROW_H
#include "kernels.h"

enum { MAX_NARROW = 7, NARROW_BYTES = 32 }; /* maximum number of columns; their bytes are fewer than NARROW_BYTES */
/* Tables by [float32, float64][index type][columns - 2]; NULL: no kernel. */
extern const asp_kernel asp_narrow_avx2[2][2][MAX_NARROW - 1];
extern const asp_kernel asp_narrow_avx512[2][2][MAX_NARROW - 1];
#endif
