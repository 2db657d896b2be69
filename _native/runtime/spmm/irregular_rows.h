/* C[i, :] = A[i] B for matrices whose rows have irregular lengths, and rows of B of at most 32 bytes.
 *
 * A tile mispredicts about two branches in each such row, which is most of the time of short rows. Here, rows of up to
 * SHORT_ROW entries and the last entries of longer ones take no branch that depends on their number: absent entries read
 * the row's last entry again and leave the sums as they are. Sums have the order of the tiles of one vector (SETS in
 * spmm_tile_body.h), so that results are the same, bit for bit. */
#ifndef ASP_IRREGULAR_ROWS_H
#define ASP_IRREGULAR_ROWS_H
#include "kernels.h"

/* Return whether loops over rows in steps of four entries mispredict branches, judged by a sample of rows. */
int asp_has_irregular_rows(int itype, const void *indptr, int64_t n_rows);
/* Return the kernel where rows are irregular and it is compiled, and NULL elsewhere. */
asp_kernel asp_irregular_kernel(int dtype, int itype, const asp_args *args);
#endif
