/* Products whose sparse operand has another value type than the product, and products of integers and bool.
 *
 * Arguments as of asp_csr_mm and asp_csr_t_mm. B and C have the value type `dtype`: 0 to 3 as there, 4 bool, 5 to 8
 * integers of 8, 16, 32 and 64 bits. Integers wrap around, so that signed and unsigned ones have the same kernels. The
 * values of A have the type `stored`: 0 to 8 as `dtype`, of which 5 to 8 are unsigned, or 9 to 12: signed integers of
 * 8, 16, 32 and 64 bits. They are converted while they are read. Return 1 for a pair that would lose information.
 */
int asp_csr_mm_widened(int stored, int dtype, int itype, int64_t n_rows, int64_t n_cols, const void *indptr,
                       const void *indices, const void *data, const void *B, int64_t ldb, void *C, int64_t ldc,
                       int64_t n_vecs, int n_threads, int flags);
int asp_csr_t_mm_widened(int stored, int dtype, int itype, int64_t n_rows, int64_t n_cols, const void *indptr,
                         const void *indices, const void *data, const void *B, int64_t ldb, void *C, int64_t ldc,
                         int64_t n_vecs, int n_threads, int flags);
/* Compute y = A x with an x of type `x_stored`, of which each of n_threads threads converts a copy for itself, at
 * multiples of copy_bytes in `copies`. Return 1 also where x has nothing to convert. */
int asp_csr_mv_widened(int stored, int dtype, int itype, int64_t n_rows, int64_t n_cols, const void *indptr,
                       const void *indices, const void *data, int x_stored, const void *x, void *copies,
                       int64_t copy_bytes, void *y, int n_threads);
/* Convert n values of type `stored` to type `dtype` on at most n_threads threads. Returns 0, or 1 for a pair that would
 * lose information or has nothing to convert. */
int asp_widen_values(int stored, int dtype, int64_t n, const void *from, void *to, int n_threads);
