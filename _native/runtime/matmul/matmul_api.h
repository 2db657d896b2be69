/* dtype: 0 float32, 1 float64, 2 complex64, 3 complex128. itype (of indptr and indices): 0 int32, 1 int64.
 * flags: 1 accumulate (C += instead of C =), 2 deterministic (bitwise the same result for any number of threads).
 * ldb, ldc: elements between rows of B and C; with n_vecs == 1 any stride, else >= n_vecs and columns are adjacent.
 * Returns 0, or 1 unknown code, 2 no memory, 3 impossible size; C is unspecified after an error. */

/* C (n_rows x n_vecs) = A B with A (n_rows x n_cols) in CSR and B (n_cols x n_vecs). */
int asp_csr_mm(int dtype, int itype, int64_t n_rows, int64_t n_cols, const void *indptr, const void *indices,
               const void *data, const void *B, int64_t ldb, void *C, int64_t ldc, int64_t n_vecs, int n_threads,
               int flags);
/* C (n_cols x n_vecs) = A^T B with A (n_rows x n_cols) in CSR and B (n_rows x n_vecs). */
int asp_csr_t_mm(int dtype, int itype, int64_t n_rows, int64_t n_cols, const void *indptr, const void *indices,
                 const void *data, const void *B, int64_t ldb, void *C, int64_t ldc, int64_t n_vecs, int n_threads,
                 int flags);
/* Address of a kernel as asp_run_kernel calls them: the loops of asp_csr_mm on a CSR operand with 32-bit indices, whose
 * rows may be in an order of their own (crd[5]: the row of C of each). dtype 0 or 1; rows of B are fetched `prefetch`
 * nonzeros ahead (4, 8; 0: where it is known to pay). 0 when there is no such kernel. */
uintptr_t asp_ready_kernel(int dtype, int prefetch);

/* Instruction sets: 0 portable or baseline x86-64, 1 AVX2 + FMA, 2 AVX-512. */
int asp_isa(void);
int asp_best_isa(void);
/* Use at most this one from now on (-1: the best again); returns the one in force. */
int asp_force_isa(int isa);
/* Whether SpMV kernels use gather instructions: measured at the first call. */
int asp_gathers(void);
/* Whether three rows in turn have their entries in the same columns, as it seems from a few places of a CSR matrix: the
 * products with dense matrices compute such rows together. */
int asp_has_identical_rows(int itype, int64_t n_rows, const void *indptr, const void *indices);
