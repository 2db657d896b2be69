/* Entries of a panel of A beside a copied tile of B, which lies in the first cache: the kernels of each instruction set. */
#ifndef ASP_RESIDENT_H
#define ASP_RESIDENT_H

#include "blocks.h"

enum { RESIDENT_ROWS = 256, RESIDENT_BYTES = 256 }; /* of a tile: rows of B at most, and bytes of each */

/* C of the rows [begin, end), one row a group. Returns how many of the columns were computed: as many as fill vectors. */
typedef int64_t (*asp_resident_kernel)(const asp_blocks_args *args, int64_t begin, int64_t end);

extern const asp_resident_kernel asp_resident_base[2]; /* float32, float64 */
extern const asp_resident_kernel asp_resident_avx2[2];
extern const asp_resident_kernel asp_resident_avx512[2];

#endif
