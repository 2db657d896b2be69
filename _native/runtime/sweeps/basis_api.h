/* Products of a block of vectors with one vector, for orthogonalisation; the block is read once, whatever its number
 * of rows. The rows of V are vectors of n elements of type `dtype`, `ldv` elements apart. Sums are computed chunk by
 * chunk in double precision, and do not depend on the number of threads. n_threads 0 means asp_max_threads(). */

/* Compute dots[i * s] = sum conj(V[i]) w for i < n_rows, and dots[n_rows * s] = sum conj(w) w. With `u`, dots[i * s +
 * t] is sum conj(V[i]) u for i < n_rows, where t is 1 for real vectors. A complex number takes two adjacent doubles. s
 * is the number of doubles per row. Returns 0, 1 for an unknown dtype, or 2 without memory. */
int asp_basis_dots(int dtype, int64_t n, int64_t n_rows, const void *V, int64_t ldv, const void *w, const void *u,
                   double *dots, int n_threads);
/* Compute out = scale * w + sum_i c[i] V[i] and *norm2 = sum |out|^2; out may be w. Returns as asp_basis_dots. */
int asp_basis_update(int dtype, int64_t n, int64_t n_rows, const void *V, int64_t ldv, const double *c, double scale,
                     const void *w, void *out, double *norm2, int n_threads);
