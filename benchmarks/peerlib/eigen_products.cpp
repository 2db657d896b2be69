/* Products of Eigen's row-major SparseMatrix: y = A x, C = A B with B and C row-major, C = A A.
 *
 * REAL is float or double. Eigen runs the first two in parallel (OpenMP), the last on one thread. The caller owns A, x, B,
 * y and C of the dense products; Eigen owns a sparse product until eigen_free.
 */
#include <cstdint>
#include <cstring>

#include <Eigen/SparseCore>

using Sparse = Eigen::SparseMatrix<REAL, Eigen::RowMajor, int32_t>;
using Dense = Eigen::Matrix<REAL, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
using Vector = Eigen::Matrix<REAL, Eigen::Dynamic, 1>;

static Eigen::Map<const Sparse> matrix(int64_t n_rows, int64_t n_cols, const int32_t *indptr, const int32_t *indices,
                                       const REAL *values)
{
    return Eigen::Map<const Sparse>(n_rows, n_cols, indptr[n_rows], indptr, indices, values);
}

extern "C" {

void eigen_spmv(int64_t n_rows, int64_t n_cols, const int32_t *indptr, const int32_t *indices, const REAL *values,
                const REAL *x, REAL *y, int n_threads)
{
    Eigen::setNbThreads(n_threads);
    Eigen::Map<Vector>(y, n_rows).noalias() =
        matrix(n_rows, n_cols, indptr, indices, values) * Eigen::Map<const Vector>(x, n_cols);
}

void eigen_spmm(int64_t n_rows, int64_t n_cols, const int32_t *indptr, const int32_t *indices, const REAL *values,
                const REAL *B, REAL *C, int64_t n, int n_threads)
{
    Eigen::setNbThreads(n_threads);
    Eigen::Map<Dense>(C, n_rows, n).noalias() =
        matrix(n_rows, n_cols, indptr, indices, values) * Eigen::Map<const Dense>(B, n_cols, n);
}

Sparse *eigen_new(void) { return new Sparse; }

void eigen_spgemm(Sparse *C, int64_t n, const int32_t *indptr, const int32_t *indices, const REAL *values)
{
    const auto A = matrix(n, n, indptr, indices, values);
    *C = A * A;
}

int64_t eigen_nnz(const Sparse *C) { return C->nonZeros(); }

void eigen_copy(const Sparse *C, int32_t *indptr, int32_t *indices, REAL *values)
{
    std::memcpy(indptr, C->outerIndexPtr(), (C->rows() + 1) * sizeof *indptr);
    std::memcpy(indices, C->innerIndexPtr(), C->nonZeros() * sizeof *indices);
    std::memcpy(values, C->valuePtr(), C->nonZeros() * sizeof *values);
}

void eigen_free(Sparse *C) { delete C; }
}
