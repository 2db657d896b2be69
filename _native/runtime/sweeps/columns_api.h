/* One pass over blocks of n rows and k columns, all of one dtype and without gaps. `program` holds n_steps rows of
 * ASP_COLUMN_STEP numbers: kind, out, n_terms, and up to four blocks. Kinds:
 *   0 combine: out[i,j] = sum over t of c[t][j] * block_t[i,j]     (k coefficients for each term, in order of the steps)
 *   1 scale:   out[i,j] = d[i] * block[i,j]                         (the first block is d, with n elements)
 *   2 dot:     sum over i of conj(u[i,j]) * v[i,j]                  (k results, summed in double)
 *   3 norm:    max over i of the sum over j of |u[i,j]|             (one result in k places; not a number where one is)
 * Coefficients and results are doubles, pairs of them for complex dtypes. Steps see what earlier steps wrote. Results
 * have the same bits for any number of threads. */
int asp_column_sweep(int dtype, int64_t n, int64_t k, const int64_t *program, int64_t n_steps, void *const *blocks,
                     const double *coefficients, double *results, int n_threads);
