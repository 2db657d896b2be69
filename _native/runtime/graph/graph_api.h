/* Kernels for graph networks, declared once for C and for Python; documented where they are defined. */
typedef struct {
    const void *indptr, *indices;
    int64_t n_rows, n_cols, nnz, n_heads, D, F; /* D features of q and k (dot scores), F of V and out */
    const void *q, *k, *V, *dout;
    void *alpha, *out, *dscore, *dq;
    double scale, slope;
    int additive;
} asp_attention;
int asp_sddmm(int dtype, int itype, int64_t n_rows, int64_t n_cols, const void *indptr, const void *indices, int64_t nnz,
              const void *X, int64_t ldx, const void *Y, int64_t ldy, int64_t K, int64_t n_heads, const double *scale, const void *in,
              void *out, int n_threads, int flags);
int asp_sddmm_scaled(int dtype, int itype, int64_t n_rows, int64_t n_cols, const void *indptr, const void *indices,
                     const void *X, int64_t ldx, const void *Y, int64_t ldy, int64_t K, const void *vals, void *out,
                     int n_threads, int flags);
/* Address of a kernel as asp_run_sddmm calls them, on a CSR operand with 32-bit indices whose rows may be in an order of
 * their own (crd[5]: the row of X of each, origin: the place of each entry). dtype 0 or 1; rows of Y are asked for
 * `prefetch` nonzeros ahead (4, 8, 16, 64; 0: where it is known to pay). 0 when there is no such kernel. */
uintptr_t asp_ready_sampled(int dtype, int prefetch);
int asp_row_softmax(int dtype, int itype, int64_t n_rows, const void *indptr, int64_t nnz, int64_t n_heads,
                    const void *in, const void *y, void *out, int n_threads);
int asp_heads_mm(int dtype, int itype, int64_t n_rows, const void *indptr, const void *indices, const void *perm,
                 int64_t nnz, int64_t n_heads, const void *w, const void *V, int64_t ldv, int64_t F, double scale,
                 void *out, int n_threads);
int asp_attention_forward(int dtype, int itype, const asp_attention *a, int n_threads);
int asp_attention_backward(int dtype, int itype, const asp_attention *a, int n_threads);
int asp_csr_extreme(int dtype, int itype, int64_t n_rows, const void *indptr, const void *indices, const void *data,
                    int64_t nnz, const void *B, int64_t ldb, int64_t n_vecs, int least, void *C, void *arg,
                    int n_threads);
int asp_csr_extreme_backward(int dtype, int itype, int64_t n_rows, const void *indptr, const void *indices,
                             const void *data, int64_t nnz, const void *B, int64_t ldb, int64_t n_vecs, const void *G,
                             const void *arg, void *ddata, void *dB, int64_t lddb, int n_threads);
/* A number over 64 words spread over the bytes: tells that an array was replaced, not every single write. */
uint64_t asp_probe(const void *bytes, int64_t n_bytes);
