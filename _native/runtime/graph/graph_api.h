/* Kernels for graph networks (SDDMM, softmax, attention, max aggregation), declared once for C and for Python (cffi).
 * Their definitions describe them. */
/* Operands of the attention kernels (attention.c). indptr and indices are the CSR pattern of the graph; arrays of
 * features are n_rows (or n_cols) x n_heads x D or F without gaps. */
typedef struct {
    const void *indptr, *indices;
    /* D features per head of q and k (dot-product scores), F of V and out */
    int64_t n_rows, n_cols, nnz, n_heads, D, F;
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
/* Return the address of an SDDMM kernel with the signature that asp_run_sddmm calls, or 0 if there is none. Its
 * operand is CSR with 32-bit indices whose rows may be permuted: crd[5] holds the row of X per row, `origin` the
 * result's position per entry. dtype is 0 or 1. `prefetch` is the number of nonzeros (4, 8, 16 or 64) by which rows of
 * Y are prefetched; 0 lets the kernel choose. */
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
/* Return a checksum of up to about 64 words spread evenly over the bytes. It detects that an array was replaced, but
 * not every single write. */
uint64_t asp_probe(const void *bytes, int64_t n_bytes);
