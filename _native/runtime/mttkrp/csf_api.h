/* A sparse tensor by levels (CSF). Level 0 holds the nonempty rows of one mode, level d the coordinates ids[d] of
 * another mode. The children of a node are ptr[d][node] .. ptr[d][node + 1] of level d + 1; the leaves are the
 * entries, with their values. A tensor whose nodes have few children is stored flat: all levels but the first have one
 * node per entry, and only ptr[0] (= first_leaf) is used. */
enum { ASP_MAX_MODES = 16 };
typedef struct {
    int64_t n_modes, n_rows;   /* number of levels; extent of the mode of level 0 */
    int64_t n_nodes[16];       /* per level */
    const void *ids[16];       /* n_nodes[d] coordinates of level d */
    const void *ptr[16];       /* n_nodes[d] + 1 positions, for all levels but the last */
    const void *values;        /* n_nodes[n_modes - 1] */
    const void *first_leaf;    /* n_nodes[0] + 1 positions in the last level where each row begins */
    int64_t largest_row;       /* maximum number of leaves per row */
    int is_flat;
} asp_csf;

/* Compute the permutation that sorts the nnz entries stably by coords[0], then coords[1], and so on. sizes[d] is the
 * extent of coords[d]; perm and coords have integers of itype (0 int32, 1 int64). Returns 0, or 2 without memory. */
int asp_tensor_sort(int itype, int64_t n_modes, int64_t nnz, const void *const *coords, const int64_t *sizes, void *perm);
/* Count the nodes of each level for the entries in the order of perm; the leaves are the entries themselves. ids and
 * ptr are filled too unless they are NULL (see asp_csf). */
void asp_tensor_levels(int itype, int64_t n_modes, int64_t nnz, const void *const *coords, const void *perm,
                       int64_t *n_nodes, void *const *ids, void *const *ptr);
/* Compute M[i, :] = sum over the entries of row i of value * factors[1][.., :] * factors[2][.., :] ..., for all `rank`
 * columns; M has n_rows rows. dtype 0 float32, 1 float64; ld: elements between rows of the factor of level d. flags as
 * in asp_csr_mm. Returns 0, or -1 for an unsupported type or order. */
int asp_csf_mttkrp(int dtype, int itype, const asp_csf *csf, const void *const *factors, const int64_t *ld, int64_t rank,
                   void *M, int64_t ldm, int n_threads, int flags);
