/* Products with a matrix that stores r rows side by side: operands, and the kernels of each instruction set. */
#ifndef ASP_BLOCKS_H
#define ASP_BLOCKS_H

#include "common.h"

/* Operands of C (+)= A B with A in blocks of r x 1 cells: block row g has the blocks [pos[g], pos[g + 1]) in the columns
 * crd[b]. Row i of A is row places[i] of C (NULL: row i). With `adds` the products are added to C,
 * otherwise they overwrite it. */
typedef struct {
    int64_t n_rows, n_cols, r, n_blocks, n_vecs, ldb, ldc;
    int64_t ahead; /* prefetch distance in blocks */
    const int32_t *pos, *crd, *places;
    const void *vals, *B;
    void *C;
    int adds;
} asp_blocks_args;

/* Compute the block rows [begin, end) of C. Returns whether some result is not finite, which padding cells (0 times an
 * infinite value) may cause. */
typedef int (*asp_blocks_kernel)(const asp_blocks_args *args, int64_t begin, int64_t end);

/* Tables by [r = 1, 4, 8 rows][float32, float64]. */
#define ASP_DECLARE(x, isa) extern const asp_blocks_kernel x##_##isa[3][2];
ASP_EACH_ISA(ASP_DECLARE, asp_blocks)
#undef ASP_DECLARE

#endif
