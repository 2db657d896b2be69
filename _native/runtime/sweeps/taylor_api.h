/* One term of a Taylor series of exp(A) B in one pass over blocks of n rows and k columns without gaps:
 *   Q = scale (Q - shift B);  F += Q;  norms = {|Q|, |F|}.
 * Q holds A B before the call. |.| is the largest sum of a row's absolute values; not a number where one of them is not.
 * shift is a pair of doubles, of which real dtypes use the first. norms has two places. */
int asp_taylor_step(int dtype, int64_t n, int64_t k, void *Q, const void *B, void *F, double scale, const double *shift,
                    double *norms, int n_threads);
/* F = G + factor K; *norm = |F|. F may be G. */
int asp_taylor_add(int dtype, int64_t n, int64_t k, const void *K, const void *G, void *F, double factor, double *norm,
                   int n_threads);
