/* Products of CSR matrices with dense matrices; any number of threads may call them concurrently.
 *
 * dtype: 0 float32, 1 float64, 2 complex64, 3 complex128. itype (of indptr and indices): 0 int32, 1 int64. flags: 1
 * accumulate (C += instead of C =), 2 deterministic (bitwise the same result for any number of threads). ldb, ldc:
 * elements between rows of B and C; with n_vecs == 1 any stride, otherwise >= n_vecs with contiguous columns. Return
 * 0, or 1 unknown code, 2 no memory, 3 impossible size; C is unspecified after an error.
 */

/* Compute C (n_rows x n_vecs) = A B with A (n_rows x n_cols) in CSR and B (n_cols x n_vecs). */
int asp_csr_mm(int dtype, int itype, int64_t n_rows, int64_t n_cols, const void *indptr, const void *indices,
               const void *data, const void *B, int64_t ldb, void *C, int64_t ldc, int64_t n_vecs, int n_threads,
               int flags);
/* Compute C (n_cols x n_vecs) = A^T B with A (n_rows x n_cols) in CSR and B (n_rows x n_vecs). */
int asp_csr_t_mm(int dtype, int itype, int64_t n_rows, int64_t n_cols, const void *indptr, const void *indices,
                 const void *data, const void *B, int64_t ldb, void *C, int64_t ldc, int64_t n_vecs, int n_threads,
                 int flags);
/* Return the address of a kernel with the signature that asp_run_kernel calls, or 0 if there is none. It runs the
 * loops of asp_csr_mm on a CSR operand with 32-bit indices whose rows may be permuted (crd[5]: row of C per row).
 * dtype is 0 or 1. `prefetch` is the distance in nonzeros at which rows of B are prefetched (4, 8, 16 or 64); 0 lets
 * the runtime choose. */
uintptr_t asp_ready_kernel(int dtype, int prefetch);

/* Return the instruction set in use, or the best one of this CPU, as a level of isa.h: 0 is the portable one. */
int asp_isa(void);
int asp_best_isa(void);
/* Return the bytes of a vector of the instruction set in use. */
int asp_vector_bytes(void);
/* Use at most this instruction set from now on (-1: the best); return the one in use. */
int asp_force_isa(int isa);
/* Return whether SpMV kernels use gather instructions, which is measured at the first call. */
int asp_gathers(void);
/* Return whether a few sampled positions of a CSR matrix have three consecutive rows with identical columns. Products
 * with dense matrices compute such rows together. */
int asp_has_identical_rows(int itype, int64_t n_rows, const void *indptr, const void *indices);
