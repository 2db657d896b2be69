/* Products of blocks of A beside its scattered entries: operands, and the kernels of each instruction set. */
#ifndef ASP_BLOCKS_H
#define ASP_BLOCKS_H

#include <stdint.h>

/* A in two parts: blocks of r x c cells, of which block row g has [pos[g], pos[g + 1]) with columns from crd[b] c on, and
 * the other entries by rows (rest_pos NULL: there are none). Row i of A is row places[i] of C (NULL: row i). With `adds`
 * the products are added to C, else written. */
typedef struct {
    int64_t n_rows, n_cols, r, c, n_blocks, n_rest, n_vecs, ldb, ldc;
    int64_t ahead; /* blocks whose rows of B are fetched */
    const int32_t *pos, *crd, *rest_pos, *rest_crd, *places;
    const void *vals, *rest_vals, *B;
    void *C;
    int adds;
} asp_blocks_args;

/* C of the block rows [begin, end). Returns whether some result is not finite: cells without an entry are multiplied. */
typedef int (*asp_blocks_kernel)(const asp_blocks_args *args, int64_t begin, int64_t end);

/* [blocks of r = 2, 4, 8 rows, then those of 4, 8 and 1 rows and one column][float32, float64] */
extern const asp_blocks_kernel asp_blocks_base[6][2];
extern const asp_blocks_kernel asp_blocks_avx2[6][2];
extern const asp_blocks_kernel asp_blocks_avx512[6][2];

#endif
