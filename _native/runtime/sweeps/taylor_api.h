/* Compute one term of a Taylor series of exp(A) B in one pass over blocks of n rows and k columns without gaps:
 *   Q = scale (Q - shift B);  F += Q;  norms = {|Q|, |F|}.
 * Q holds A B before the call. The norm |.| is the largest sum of a row's absolute values, or nan if one of the sums
 * is nan. Parameter `shift` is a pair of doubles, of which real dtypes use the first. `norms` has two elements. */
int asp_taylor_step(int dtype, int64_t n, int64_t k, void *Q, const void *B, void *F, double scale, const double *shift,
                    double *norms, int n_threads);
/* Compute F = G + factor K and *norm = |F|. F may be G. */
int asp_taylor_add(int dtype, int64_t n, int64_t k, const void *K, const void *G, void *F, double factor, double *norm,
                   int n_threads);
