/* Operands of products: dense tensors and sparse matrices, read through the classes of PyTorch's C++ interface. */
#pragma once

#include <ATen/SparseCsrTensorImpl.h>
#include <ATen/SparseTensorImpl.h>
#include <ATen/core/Tensor.h>

#include <cstdint>

namespace asp_torch {

/* A dense tensor; missing dimensions have size 1 and stride 0. */
struct Dense {
    const at::Tensor *tensor;
    int64_t n_dims, sizes[2], strides[2];
    at::ScalarType dtype;

    const char *data() const { return static_cast<const char *>(tensor->const_data_ptr()); }
    bool has_no_gaps() const { return n_dims == 1 && (strides[0] == 1 || sizes[0] <= 1); }
};

/* A sparse matrix: CSR or CSC with `starts`, or COO, whose `indices` holds rows and columns. */
struct Entries {
    const char *starts = nullptr, *indices, *values;
    int64_t n, k, nnz, index_step = 1, pair_step = 0;
    bool by_columns = false, is_wide = true; /* stored by columns; 64-bit indices */
    at::ScalarType dtype;
    const at::Tensor *matrix = nullptr;
    const at::Tensor *arrays[2] = {nullptr, nullptr}; /* starts and indices */
    uint64_t version = 0; /* in-place writes through the sparse tensor, and through the tensors it was made of */

    int64_t n_major() const { return by_columns ? k : n; }
    int64_t n_minor() const { return by_columns ? n : k; }
    size_t width() const { return c10::elementSize(dtype); }
};

inline bool is_real(at::ScalarType dtype) { return dtype == at::kFloat || dtype == at::kDouble; }
inline bool is_number(at::ScalarType dtype)
{
    return is_real(dtype) || dtype == at::kComplexFloat || dtype == at::kComplexDouble;
}

/* Return the C runtime's code of a dtype for which `is_number` is true. */
inline int code_of(at::ScalarType dtype)
{
    return dtype == at::kFloat ? 0 : dtype == at::kDouble ? 1 : dtype == at::kComplexFloat ? 2 : 3;
}

/* Return whether the memory of a tensor holds its values: no lazy conjugate or negative, no wrapped tensor. */
inline bool is_plain(const at::Tensor &tensor)
{
    constexpr c10::DispatchKeySet wrapped(
        {c10::DispatchKey::Conjugate, c10::DispatchKey::Negative, c10::DispatchKey::ZeroTensor,
         c10::DispatchKey::Python, c10::DispatchKey::Functionalize, c10::DispatchKey::FuncTorchBatched,
         c10::DispatchKey::FuncTorchGradWrapper, c10::DispatchKey::Batched});
    return tensor.defined() && tensor.is_cpu() && !tensor.key_set().has_any(wrapped);
}

/* Read a dense tensor with at most `max_dims` (1 or 2) dimensions; return false for any other tensor. */
inline bool read_dense(const at::Tensor &tensor, int64_t max_dims, Dense *dense)
{
    if (!is_plain(tensor) || tensor.layout() != c10::kStrided) return false;
    const auto *impl = tensor.unsafeGetTensorImpl();
    if (impl->has_symbolic_sizes_strides() || !impl->has_storage() || tensor.dim() > max_dims) return false;
    dense->tensor = &tensor;
    dense->n_dims = tensor.dim();
    dense->dtype = tensor.scalar_type();
    for (int64_t at = 0; at < 2; ++at) {
        dense->sizes[at] = at < dense->n_dims ? tensor.sizes()[at] : 1;
        dense->strides[at] = at < dense->n_dims ? tensor.strides()[at] : 0;
    }
    return true;
}

/* Read the values of a sparse matrix; return false if they do not fit its indices, or do not have its dtype: PyTorch's
 * `Module.double()` changes the dtype of a compressed parameter and leaves its values. */
inline bool read_values(const at::Tensor &matrix, const at::Tensor &values, Entries *A)
{
    Dense read;
    if (!read_dense(values, 1, &read) || !read.has_no_gaps() || read.sizes[0] != A->nnz || !is_number(read.dtype) ||
        read.dtype != matrix.scalar_type())
        return false;
    A->values = read.data();
    A->dtype = read.dtype;
    return true;
}

/* Return PyTorch's number of writes to a tensor, which it does not count in inference mode. */
inline uint64_t n_writes(const at::Tensor &tensor)
{
    const auto &counter = tensor.unsafeGetTensorImpl()->version_counter();
    return counter.enabled() ? counter.current_version() : 0;
}

inline const at::SparseCsrTensorImpl &compressed(const at::Tensor &matrix)
{
    return *static_cast<const at::SparseCsrTensorImpl *>(matrix.unsafeGetTensorImpl());
}

/* Read the index arrays of a compressed matrix whose extents are known. */
inline bool read_indices(const at::Tensor &matrix, Entries *A)
{
    const auto *impl = &compressed(matrix);
    A->arrays[0] = &impl->compressed_indices();
    A->arrays[1] = &impl->plain_indices();
    Dense starts, indices;
    if (!read_dense(*A->arrays[0], 1, &starts) || !read_dense(*A->arrays[1], 1, &indices) || !starts.has_no_gaps() ||
        !indices.has_no_gaps() || starts.dtype != indices.dtype || starts.sizes[0] != A->n_major() + 1 ||
        (indices.dtype != at::kInt && indices.dtype != at::kLong))
        return false;
    A->version += n_writes(*A->arrays[0]) + n_writes(*A->arrays[1]);
    A->starts = starts.data();
    A->indices = indices.data();
    A->is_wide = indices.dtype == at::kLong;
    A->nnz = indices.sizes[0];
    return true;
}

inline bool read_coordinates(const at::Tensor &matrix, Entries *A)
{
    const auto *impl = static_cast<const at::SparseTensorImpl *>(matrix.unsafeGetTensorImpl());
    const at::Tensor both = impl->indices(), values = impl->values();
    Dense indices;
    if (!read_dense(both, 2, &indices) || indices.n_dims != 2 || indices.sizes[0] != 2 || indices.dtype != at::kLong)
        return false;
    A->indices = indices.data();
    A->pair_step = indices.strides[0];
    A->index_step = indices.strides[1];
    A->nnz = indices.sizes[1];
    return read_values(matrix, values, A); /* the matrix holds both tensors */
}

/* Return a number whose highest bit says whether one of n indices is negative or larger than `last`. */
__attribute__((optimize("O3"))) inline uint64_t outside(const uint64_t *ids, int64_t n, uint64_t last)
{
    uint64_t wrong = 0;
    for (int64_t at = 0; at < n; ++at) wrong |= ids[at] | (last - ids[at]);
    return wrong;
}

/* Return whether all indices of a COO tensor lie inside its sparse dimensions. */
inline bool has_sound_coordinates(const at::Tensor &tensor)
{
    const at::Tensor indices = static_cast<const at::SparseTensorImpl *>(tensor.unsafeGetTensorImpl())->indices();
    Dense read;
    if (!read_dense(indices, 2, &read) || read.dtype != at::kLong || read.sizes[0] > tensor.dim()) return false;
    const int64_t n = read.sizes[1], step = read.strides[1];
    uint64_t wrong = 0; /* highest bit: an index is negative, or not below the extent */
    for (int64_t dim = 0; dim < read.sizes[0]; ++dim) {
        const uint64_t *ids = reinterpret_cast<const uint64_t *>(read.data()) + dim * read.strides[0];
        const uint64_t last = static_cast<uint64_t>(tensor.sizes()[dim]) - 1;
        if (step == 1) wrong |= outside(ids, n, last);
        else
            for (int64_t at = 0; at < n; ++at) wrong |= outside(ids + at * step, 1, last);
    }
    return !(wrong >> 63);
}

inline bool is_plain_matrix(const at::Tensor &matrix)
{
    return is_plain(matrix) && matrix.dim() == 2 && !matrix.unsafeGetTensorImpl()->has_symbolic_sizes_strides();
}

/* Read a sparse matrix; return false for other layouts, batches, blocks and hybrid tensors. */
inline bool read_matrix(const at::Tensor &matrix, Entries *A)
{
    if (!is_plain_matrix(matrix)) return false;
    A->n = matrix.sizes()[0];
    A->k = matrix.sizes()[1];
    A->matrix = &matrix;
    A->version = n_writes(matrix);
    const c10::Layout layout = matrix.layout();
    A->by_columns = layout == c10::kSparseCsc;
    if (layout == c10::kSparseCsr || A->by_columns)
        return read_indices(matrix, A) && read_values(matrix, compressed(matrix).values(), A);
    return layout == c10::kSparse && read_coordinates(matrix, A);
}

/* Read the grid of a BSR or BSC matrix, whose entries are blocks, without values; false for batches and hybrids. */
inline bool read_grid(const at::Tensor &matrix, Entries *A)
{
    if (!is_plain_matrix(matrix)) return false;
    const auto blocks = compressed(matrix).values().sizes();
    if (blocks.size() != 3 || !blocks[1] || !blocks[2]) return false;
    A->n = matrix.sizes()[0] / blocks[1];
    A->k = matrix.sizes()[1] / blocks[2];
    A->matrix = &matrix;
    A->version = n_writes(matrix);
    A->by_columns = matrix.layout() == c10::kSparseBsc;
    return read_indices(matrix, A) && A->nnz == blocks[0];
}

}  // namespace asp_torch
