/* Products that are sampled at the entries of a CSR matrix: alpha (X Y at the entries of S) + beta S. */
#pragma once

#include "products.h"

namespace asp_torch {

/* Compute a small sampled product; return false, with *result undefined, if it is not supported. */
inline bool sample(const at::Tensor &S, const at::Tensor &left, const at::Tensor &right, double beta, double alpha,
                   at::Tensor *result)
{
    Entries A;
    Dense X, Y;
    if (S.layout() != c10::kSparseCsr || !read_matrix(S, &A) || !is_real(A.dtype) || 8 * A.nnz >= limits.direct ||
        !read_dense(left, 2, &X) || !read_dense(right, 2, &Y) || X.n_dims != 2 || Y.n_dims != 2)
        return false;
    const int64_t K = X.sizes[1];
    if (X.dtype != A.dtype || Y.dtype != A.dtype || X.sizes[0] != A.n || Y.sizes[1] != A.k || Y.sizes[0] != K ||
        K < 1 || K >= limits.sampled || A.nnz * K >= limits.sampled || !validate(A).is_sound)
        return false;
    const int n_threads = A.nnz * K < limits.small ? 1 : static_cast<int>(ask_how() % 1024);
    at::Tensor rows; /* of X where it is expanded, as the gradient of a sum, or transposed */
    if (!has_rows(X)) {
        if (A.n >= limits.sampled || A.n * K >= limits.sampled) return false;
        rows = rows_of(X, n_threads);
        if (!rows.defined() || !read_dense(rows, 2, &X)) return false;
    }
    *result = S.clone();
    auto *impl = static_cast<at::SparseCsrTensorImpl *>(result->unsafeGetTensorImpl());
    if (!A.is_wide) /* PyTorch's results have 64-bit indices */
        impl->set_member_tensors(A.arrays[0]->to(at::kLong), A.arrays[1]->to(at::kLong), impl->values(), S.sizes());
    Entries C;
    if (!read_matrix(*result, &C) || C.nnz != A.nnz || C.dtype != A.dtype || !C.is_wide) return false;
    const auto values = reinterpret_cast<uintptr_t>(C.values);
    return !runtime.sampled(A.dtype == at::kDouble, C.is_wide, C.n, C.k, reinterpret_cast<uintptr_t>(C.starts),
                            reinterpret_cast<uintptr_t>(C.indices), C.nnz, reinterpret_cast<uintptr_t>(X.data()),
                            X.strides[0], reinterpret_cast<uintptr_t>(Y.data()), Y.strides[0], Y.strides[1], K, alpha,
                            beta, values, values, 0, n_threads);
}

}  // namespace asp_torch
