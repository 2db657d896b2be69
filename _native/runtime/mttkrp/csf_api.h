/* A sparse tensor by levels (CSF): level 0 holds the rows of one mode that have entries, each node of level d the
 * coordinates ids[d] of another mode, its children at ptr[d][node] .. ptr[d][node + 1] of level d + 1; the leaves are
 * the entries, with their values. A tensor whose nodes have few children is flat: all levels but the first hold one
 * node per entry, and ptr[0] (= first_leaf) alone is used. */
enum { ASP_MAX_MODES = 16 };
typedef struct {
    int64_t n_modes, n_rows;   /* levels; extent of the mode of level 0 */
    int64_t n_nodes[16];       /* of each level */
    const void *ids[16];       /* n_nodes[d] coordinates of level d */
    const void *ptr[16];       /* n_nodes[d] + 1 positions, for all levels but the last */
    const void *values;        /* n_nodes[n_modes - 1] */
    const void *first_leaf;    /* n_nodes[0] + 1 positions in the last level: what each row begins with */
    int64_t largest_row;       /* most leaves of a row */
    int is_flat;
} asp_csf;

/* perm sorts the nnz entries by coords[0], then coords[1] ...; stable. sizes[d] is the extent of coords[d]; perm holds
 * integers of itype (0 int32, 1 int64), as coords do. Returns 0, or 2 without memory. */
int asp_tensor_sort(int itype, int64_t n_modes, int64_t nnz, const void *const *coords, const int64_t *sizes, void *perm);
/* Nodes of each level of the entries in the order of perm; the leaves are the entries themselves. Where ids and ptr are
 * not NULL they are filled too (see asp_csf). */
void asp_tensor_levels(int itype, int64_t n_modes, int64_t nnz, const void *const *coords, const void *perm,
                       int64_t *n_nodes, void *const *ids, void *const *ptr);
/* M[i, :] = sum over the entries of row i of value * factors[1][.., :] * factors[2][.., :] ..., all rank columns; M has
 * n_rows rows. dtype 0 float32, 1 float64; ld: entries between rows of the factor of level d. flags as in asp_csr_mm.
 * Returns 0, or -1 for a type or order that it does not know. */
int asp_csf_mttkrp(int dtype, int itype, const asp_csf *csf, const void *const *factors, const int64_t *ld, int64_t rank,
                   void *M, int64_t ldm, int n_threads, int flags);
