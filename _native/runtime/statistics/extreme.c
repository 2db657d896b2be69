/* Max and min aggregation: C[i, j] = max over the entries p of row i of data[p] * B[indices[p], j], and its gradient.
 *
 * A NULL data means ones. Empty rows give 0. `arg`, of the index type, holds the winning entry p (nnz in an empty row)
 * and may be NULL in the forward pass. C, G and arg are n_rows x n_vecs without gaps.
 */
#include "graph_common.h"

typedef struct {
    const void *indptr, *indices, *data, *B, *G;
    void *C, *arg, *ddata, *dB;
    int64_t n_rows, nnz, ldb, lddb, n_vecs;
    int least;
} g_extreme;

#define G_BODY "extreme_body.h"
#include "graph_each.h"

static const g_range_fn extreme_table[][2][2] = G_TABLE(extreme);
static const g_range_fn ddata_table[][2][2] = G_TABLE(extreme_ddata);
static const g_range_fn dB_table[][2][2] = G_TABLE(extreme_dB);

/* Compute the maximum of the products, or the minimum if `least` is set. Returns 0, or -1 for an unknown code. */
int asp_csr_extreme(int dtype, int itype, int64_t n_rows, const void *indptr, const void *indices, const void *data,
                    int64_t nnz, const void *B, int64_t ldb, int64_t n_vecs, int least, void *C, void *arg, int n_threads)
{
    if (dtype < 0 || dtype > 1 || itype < 0 || itype > 1) return -1;
    const g_extreme args = {.indptr = indptr, .indices = indices, .data = data, .B = B, .C = C, .arg = arg,
                            .n_rows = n_rows, .nnz = nnz, .ldb = ldb, .n_vecs = n_vecs, .least = least};
    g_for_rows(extreme_table[asp_isa()][dtype][itype], &args, indptr, itype, n_rows, (double)nnz * (double)n_vecs,
               n_threads);
    return 0;
}

/* Compute the gradients for G = dC: ddata (nnz, overwritten) and dB (added to; the caller clears it). Either may be
 * NULL. */
int asp_csr_extreme_backward(int dtype, int itype, int64_t n_rows, const void *indptr, const void *indices,
                             const void *data, int64_t nnz, const void *B, int64_t ldb, int64_t n_vecs, const void *G,
                             const void *arg, void *ddata, void *dB, int64_t lddb, int n_threads)
{
    if (dtype < 0 || dtype > 1 || itype < 0 || itype > 1) return -1;
    const g_extreme args = {.indptr = indptr, .indices = indices, .data = data, .B = B, .G = G, .arg = (void *)arg,
                            .ddata = ddata, .dB = dB, .n_rows = n_rows, .nnz = nnz, .ldb = ldb, .lddb = lddb,
                            .n_vecs = n_vecs};
    const double ns = 2.0 * (double)n_rows * (double)n_vecs;
    if (ddata) g_for_rows(ddata_table[asp_isa()][dtype][itype], &args, indptr, itype, n_rows, ns, n_threads);
    if (dB) g_for_items(dB_table[asp_isa()][dtype][itype], &args, n_vecs, 16, ns, n_threads);
    return 0;
}
