/* Products of CSR entries with a copied tile of B that fits the L1 cache: the kernels of each instruction set. */
#ifndef ASP_RESIDENT_H
#define ASP_RESIDENT_H

#include "blocks.h"

enum { RESIDENT_ROWS = 256, RESIDENT_BYTES = 256 }; /* maximum number of rows of B in a tile, and bytes of each */

/* Compute the rows [begin, end) of C, with one row per block row. Returns how many columns were computed: those that
 * fill whole vectors. */
typedef int64_t (*asp_resident_kernel)(const asp_blocks_args *args, int64_t begin, int64_t end);

/* Tables by [float32, float64]. */
#define ASP_DECLARE(x, isa) extern const asp_resident_kernel x##_##isa[2];
ASP_EACH_ISA(ASP_DECLARE, asp_resident)
#undef ASP_DECLARE

#endif
