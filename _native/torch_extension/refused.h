/* Arguments that PyTorch computes inside a block, found before they are packed for a boxed kernel: layouts that neither
 * this module nor Python supports, and reductions that are too small for Python. Indices are checked first, because
 * PyTorch's kernels follow them out of the tensor. */
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/util/string_view.h>

#include <algorithm>
#include <array>

#include "structures.h"

namespace asp_torch {

/* `all`: PyTorch computes the call with what it calls in turn; `outer`: its kernel calls ours. */
enum class Left { none, outer, all };

/* Layouts of an operator's tensors. */
struct Layouts {
    bool are_plain = true, has_blocks = false;
    int n_sparse = 0;

    void add(const at::Tensor &tensor)
    {
        if (!(are_plain = are_plain && is_plain(tensor))) return;
        if (tensor.layout() == c10::kStrided) return;
        has_blocks |= is_blocked(tensor);
        sparse_[n_sparse++] = &tensor;
    }
    template <class Other> void add(const Other &) {}

    /* Return whether no kernel of ours supports these layouts, and all indices are sound. */
    bool are_refused() const { return (has_blocks || n_sparse > 1) && are_sound(); }

    /* Return whether all indices of sparse tensors lie inside them; false where they cannot be read. */
    bool are_sound() const
    {
        return are_plain && std::all_of(sparse_, sparse_ + n_sparse, [](const at::Tensor *matrix) {
            if (matrix->layout() == c10::kSparse) return has_sound_coordinates(*matrix);
            Entries A;
            const bool is_read = is_blocked(*matrix) ? read_grid(*matrix, &A) : read_matrix(*matrix, &A);
            return is_read && validate(A).is_sound;
        });
    }

  private:
    static bool is_blocked(const at::Tensor &tensor)
    {
        return tensor.layout() == c10::kSparseBsr || tensor.layout() == c10::kSparseBsc;
    }

    const at::Tensor *sparse_[4]; /* no operator has more tensors */
};

template <class... Arguments> Layouts layouts_of(const Arguments &...arguments)
{
    Layouts layouts;
    (layouts.add(arguments), ...);
    return layouts;
}

/* Return whether the product of two tensors is a dense matrix times a small COO matrix. */
inline bool is_small_coo_on_the_right(const at::Tensor &left, const at::Tensor &right)
{
    return right.layout() == c10::kSparse && left.layout() == c10::kStrided && is_plain(left) && is_plain(right) &&
           left.dim() == 2 && right.dim() == 2 && right._nnz() < limits.coordinates &&
           left.sizes()[0] < limits.coordinates && right._nnz() * left.sizes()[0] < limits.coordinates;
}

/* Read a dense matrix and a CSC matrix with fewer multiplications than products in Python; return false for others, and
 * for indices outside the matrix. */
inline bool read_rows(const at::Tensor &left, const at::Tensor &right, Dense *X, Entries *B)
{
    if (right.layout() != c10::kSparseCsc || !read_matrix(right, B) || !read_dense(left, 2, X) || X->n_dims != 2 ||
        X->dtype != B->dtype || X->sizes[1] != B->n)
        return false;
    const int64_t n = X->sizes[0], most = limits.rows;
    return B->nnz < most && n < most && B->k < most && B->nnz * n < most && validate(*B).is_sound;
}

/* Return whether the product of two tensors is a dense matrix times a CSC matrix of medium size. */
inline bool is_medium_csc_on_the_right(const at::Tensor &left, const at::Tensor &right)
{
    Dense X;
    Entries B;
    return right.layout() == c10::kSparseCsc && left.layout() == c10::kStrided && left.dim() == 2 &&
           right._nnz() * left.sizes()[0] >= limits.small && read_rows(left, right, &X, &B);
}

/* Return whether a real CSR matrix and dense matrices fit a reduction with fewer entries and products than these. */
inline bool is_small_reduction(const at::Tensor &a, const at::Tensor &b, const at::Tensor *grad, int64_t most_entries)
{
    Entries A;
    Dense B, G;
    if (a.layout() != c10::kSparseCsr || !read_matrix(a, &A) || !is_real(A.dtype) || !read_dense(b, 2, &B) ||
        B.n_dims != 2 || B.dtype != A.dtype || B.sizes[0] != A.k)
        return false;
    const int64_t m = B.sizes[1];
    if (grad && (!read_dense(*grad, 2, &G) || G.n_dims != 2 || G.dtype != A.dtype || G.sizes[0] != A.n ||
                 G.sizes[1] != m))
        return false;
    const int64_t most = limits.reduced;
    return A.nnz < most_entries && m < most && A.nnz * m < most && validate(A).is_sound;
}

inline Left left_to_pytorch(const at::Tensor &left, const at::Tensor &right)
{
    if (left.layout() == c10::kStrided && right.layout() == c10::kStrided) return Left::none;
    if (is_small_coo_on_the_right(left, right)) return Left::outer;
    if (is_medium_csc_on_the_right(left, right)) return Left::all;
    return layouts_of(left, right).are_refused() ? Left::all : Left::none;
}

inline Left left_to_pytorch(const at::Tensor &a, const at::Tensor &b, const c10::string_view &reduce)
{
    return reduce != "sum" && is_small_reduction(a, b, nullptr, limits.reduced) ? Left::all : Left::none;
}

inline Left left_to_pytorch(const at::Tensor &a, const at::Tensor &grad, const at::Tensor &b,
                            const c10::string_view &reduce, const at::Tensor &, const std::array<bool, 2> &)
{
    const bool is_extreme = reduce == "amax" || reduce == "amin";
    return is_small_reduction(a, b, &grad, limits.gradients << !is_extreme) ? Left::all : Left::none;
}

inline Left left_to_pytorch(const at::Tensor &base, const at::Tensor &left, const at::Tensor &right,
                            const at::Scalar &, const at::Scalar &)
{
    if (base.layout() == c10::kStrided && is_plain(base) && is_medium_csc_on_the_right(left, right)) return Left::all;
    return layouts_of(base, left, right).are_refused() ? Left::all : Left::none;
}

template <class... Arguments> Left left_to_pytorch(const Arguments &...arguments)
{
    return layouts_of(arguments...).are_refused() ? Left::all : Left::none;
}

}  // namespace asp_torch
