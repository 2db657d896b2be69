/* Products whose stored values have another type than the product: values are converted block by block, in memory that
 * stays in the L1 cache, and the kernels of the product's type compute each block. */
#ifndef ASP_WIDEN_H
#define ASP_WIDEN_H

#include "kernels.h"

/* Return whether a product of value type `dtype` (0 to 8) can be computed from values stored as `stored` (0 to 12). If
 * they must be converted, *widen is set to the function that does it, otherwise to NULL. */
int asp_find_widening(int stored, int dtype, asp_widen *widen);
/* Run an SpMV or SpMM kernel for the rows [begin, end), with converted values if args->widen is set. */
void asp_run_rows(const asp_args *args, asp_kernel kernel, int itype, int64_t begin, int64_t end);
/* Run a scatter kernel for the rows [begin, end), with converted values if args->widen is set. */
void asp_run_scatter(const asp_args *args, asp_kernel kernel, int itype, int64_t begin, int64_t end);
/* Compute to[k] += from[k] for n values of an integer type or bool (`dtype` 4 to 8). */
void asp_add_integers(int dtype, void *to, const void *from, int64_t n);

#endif
