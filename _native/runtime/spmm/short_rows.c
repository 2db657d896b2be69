/* C[i, :] = A[i] B for matrices with few entries per row, and rows of B of at most one vector.
 *
 * What a tile does once per row takes most of its time there. Where most rows are empty, a loop over rows also
 * mispredicts about one branch in each: C is then cleared, and the rows that are not empty are listed first, without
 * branches. Sums have the order of the tiles of one vector (SETS in spmm_tile_body.h), so that results are the same, bit
 * for bit.
 *
 * Measured on an AMD EPYC (Zen 4), one thread, 2 to 16 columns: 1.4 to 2.9 times as fast as tiles with one entry per row,
 * 1.1 to 1.5 times with three, 1.0 to 1.2 times with five. */
#include "short_rows.h"

#include "matmul_api.h"
#include ASP_INTRINSICS

enum { LISTED = 1024, SUMS = 4 }; /* rows that are listed at once; sums of a row */
enum { MAX_MEAN = 6 }; /* maximum mean number of entries per row */

#define ISA_BODY "short_rows_level.h"
#include "each_isa.h"

asp_kernel asp_short_rows_kernel(int dtype, int itype, const asp_args *args)
{
    static const asp_kernel(*const tables[])[2] = ASP_ISA_TABLE(short_rows);
    const int64_t row_bytes = args->n_vecs * asp_element_bytes(dtype);
    if (dtype > ASP_F64 || args->is_pair || args->n_vecs < 2 || args->nnz > MAX_MEAN * args->n_rows) return NULL;
    const int level = asp_isa_within(row_bytes <= 32 ? 32 : 64);
    return row_bytes > asp_isa_bytes[level] ? NULL : tables[level][dtype][itype];
}
