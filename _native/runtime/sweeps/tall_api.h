/* Products of tall blocks of doubles (dtype 1) or floats (0) in C order without gaps, of n rows and few columns.
 * The bits of the results do not depend on the number of threads. */

/* For each of at most 16 pairs of blocks: G[i,j] = sum over the rows r of U[r,i] V[r,j], in double. U has a columns,
 * V b columns (at most 256), G a rows. The matrices G follow each other. Each chunk of rows serves all pairs at once. */
int asp_tall_grams(int dtype, int64_t n, int64_t n_pairs, const void *const *U, const int64_t *a, const void *const *V,
                   const int64_t *b, double *G, int n_threads);
/* out = sum over t of blocks[t] factors[t]: blocks of widths[t] columns, factors of widths[t] rows and k columns of
 * doubles; a factor NULL is the identity (and widths[t] is k). out has k columns and may be a block of the same width. */
int asp_tall_combine(int dtype, int64_t n, int64_t k, int64_t n_terms, const void *const *blocks, const int64_t *widths,
                     const double *const *factors, void *out, int n_threads);
