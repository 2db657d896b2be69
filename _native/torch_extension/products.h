/* Products that are computed without Python: small ones, and the first ones of a structure that has no plan. */
#pragma once

#include <ATen/EmptyTensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/div.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/mv.h>
#include <c10/core/Scalar.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "structures.h"

namespace asp_torch {

/* A product alpha A B + beta base, after its arguments were read. */
struct Task {
    Entries A;
    Dense B, base, out;
    int64_t m, base_steps[2] = {0, 0};
    bool has_base = false, has_out = false, is_mean = false, is_small;
    double alpha = 1, beta = 0;
    int64_t how = 1; /* threads + 1024 * flags */

    size_t width() const { return A.width(); }
    bool adds() const { return has_base && beta != 0; }
    bool is_product() const { return !adds() && alpha == 1; }
};

/* Convert a number; return false for complex numbers, and for integers that a double does not hold. */
inline bool read_number(const c10::IValue &given, double *number)
{
    if (!given.isScalar()) return false;
    const at::Scalar scalar = given.toScalar();
    if (scalar.isComplex() || scalar.isSymbolic()) return false;
    *number = scalar.toDouble();
    return true;
}

/* Compute the strides of base, broadcast to the result; return false if it does not fit. */
inline bool broadcast(Task *task)
{
    const Dense &base = task->base;
    const int64_t shape[2] = {task->A.n, task->m}, first = task->B.n_dims - base.n_dims;
    if (first < 0) return false;
    for (int64_t at = 0; at < base.n_dims; ++at) {
        if (base.sizes[at] == shape[first + at])
            task->base_steps[first + at] = base.strides[at];
        else if (base.sizes[at] != 1)
            return false;
    }
    return true;
}

/* Return whether rows of a dense operand are contiguous and do not overlap. */
inline bool has_rows(const Dense &X)
{
    return X.n_dims == 1 ? X.strides[0] > 0
           : X.sizes[1] == 1 ? X.strides[0] > 0
                             : X.strides[1] == 1 && X.strides[0] >= X.sizes[1];
}

/* Read the dense operands and the result; return false unless they fit a product with `n_dims` dimensions. */
inline bool read_operands(const at::Tensor &B, const at::Tensor *base, const at::Tensor *out, int64_t n_dims, Task *task)
{
    const Entries &A = task->A;
    if (!read_dense(B, 2, &task->B) || task->B.n_dims != n_dims || task->B.dtype != A.dtype ||
        task->B.sizes[0] != A.k)
        return false;
    const int64_t m = task->m = task->B.sizes[1], most = limits.small;
    if (A.n < 1 || A.k < 1 || m < 1) return false;
    task->is_small = A.nnz < most && m < most && A.n < most && A.nnz * m < most && A.n * m < most;
    if (base) {
        task->has_base = true;
        if (!read_dense(*base, 2, &task->base) || task->base.dtype != A.dtype || !broadcast(task)) return false;
    }
    if (!out) return true;
    task->has_out = true;
    const Dense &X = task->out;
    return read_dense(*out, 2, &task->out) && X.dtype == A.dtype && X.n_dims == n_dims && X.sizes[0] == A.n &&
           X.sizes[1] == m && (n_dims == 1 ? X.strides[0] > 0 : X.strides[1] == 1 && X.strides[0] >= m);
}

/* Copy an n x m matrix of items of `width` bytes between arbitrary strides. */
template <size_t width>
void move_items(char *to, int64_t row_step, const char *from, int64_t from_row, int64_t from_column, int64_t n,
                int64_t m)
{
    for (int64_t i = 0; i < n; ++i)
        for (int64_t j = 0; j < m; ++j)
            std::memcpy(to + (i * row_step + j) * width, from + (i * from_row + j * from_column) * width, width);
}

inline void move(char *to, int64_t row_step, const char *from, int64_t from_row, int64_t from_column, int64_t n,
                 int64_t m, size_t width)
{
    const auto items = width == 4 ? move_items<4> : width == 8 ? move_items<8> : move_items<16>;
    items(to, row_step, from, from_row, from_column, n, m);
}

/* Compute A B with rows of B ldb apart into C without gaps; return false at an index outside a COO matrix. */
inline bool multiply(const Task &task, const char *B, int64_t ldb, char *C)
{
    const Entries &A = task.A;
    const int code = code_of(A.dtype), n_threads = static_cast<int>(task.how % 1024);
    const int flags = static_cast<int>(task.how / 1024);
    const auto indices = reinterpret_cast<uintptr_t>(A.indices), values = reinterpret_cast<uintptr_t>(A.values);
    const auto from = reinterpret_cast<uintptr_t>(B), to = reinterpret_cast<uintptr_t>(C);
    if (!A.starts)
        return !runtime.coordinates(code, A.n, A.k, A.nnz, indices, A.index_step, A.pair_step, values, from, ldb,
                                    to, task.m, n_threads, flags);
    return !runtime.product(A.by_columns, code, A.is_wide, A.n_major(), A.n_minor(),
                            reinterpret_cast<uintptr_t>(A.starts), indices, values, from, ldb, to, task.m, n_threads,
                            flags);
}

/* Return memory for a dense tensor; large ones use the pool of `autosparse.torch.results`. */
inline at::Tensor room(const at::IntArrayRef sizes, at::ScalarType dtype)
{
    int64_t n_bytes = static_cast<int64_t>(c10::elementSize(dtype));
    for (const int64_t size : sizes) n_bytes *= size;
    if (n_bytes < limits.pooled_bytes) return at::Tensor(at::detail::empty_cpu(sizes, dtype));
    static const auto op = c10::Dispatcher::singleton().findSchemaOrThrow("autosparse::room", "");
    torch::jit::Stack stack{c10::List<int64_t>(sizes.vec()), static_cast<int64_t>(dtype)};
    op.callBoxed(&stack);
    return stack[0].toTensor();
}

/* Copy B to rows without gaps; return an undefined tensor if that is impossible here. */
inline at::Tensor rows_of(const Dense &B, int n_threads)
{
    const int64_t k = B.sizes[0], m = B.sizes[1];
    const size_t width = c10::elementSize(B.dtype);
    if (reinterpret_cast<uintptr_t>(B.data()) % width || k > (INT64_MAX >> 8) / m) return {};
    at::Tensor copy = room({k, m}, B.dtype);
    char *to = static_cast<char *>(copy.mutable_data_ptr());
    if (k < limits.small && k * m < limits.small)
        move(to, m, B.data(), B.strides[0], B.strides[1], k, m, width);
    else if (B.n_dims == 2 && (!B.strides[0] || !B.strides[1]))
        copy.copy_(*B.tensor); /* expanded, as the gradient of a sum: PyTorch writes vectors */
    else if (runtime.dense_rows(static_cast<int>(width), k, m, B.data(), B.strides[0], B.strides[1], to, m, n_threads))
        return {};
    return copy;
}

/* Compute the result in C, n x m without gaps; return false if that is impossible here. */
inline bool compute(const Task &task, char *C)
{
    const int64_t m = task.m;
    const char *rows = task.B.data();
    int64_t ldb = task.B.strides[0];
    at::Tensor copy;
    if (!has_rows(task.B)) {
        copy = rows_of(task.B, static_cast<int>(task.how % 1024));
        if (!copy.defined()) return false;
        rows = static_cast<const char *>(copy.const_data_ptr());
        ldb = m;
    }
    if (!multiply(task, rows, ldb, C)) return false;
    if (!task.adds() && task.alpha == 1) return true;
    return !runtime.scaled_sum(code_of(task.A.dtype), task.A.n, m, reinterpret_cast<uintptr_t>(C), task.alpha,
                               task.adds() ? reinterpret_cast<uintptr_t>(task.base.data()) : 0, task.base_steps[0],
                               task.base_steps[1], task.beta);
}

/* Compute X B for a CSC matrix B row by row; return false if that is slower than PyTorch's kernel, or impossible. */
inline bool multiply_rows(const Dense &X, const Entries &B, at::Tensor *result)
{
    const int64_t n = X.sizes[0], shape[2] = {n, B.k}, n_multiplications = B.nnz * n;
    if (!is_real(B.dtype) || X.strides[1] != 1 || X.strides[0] < B.n || n < 1 || B.k < 1 || B.n < 1 ||
        n_multiplications >= limits.small || n * B.k >= limits.small)
        return false;
    *result = at::Tensor(at::detail::empty_cpu(shape, B.dtype));
    return !runtime.rows(code_of(B.dtype), B.is_wide, B.k, B.n, reinterpret_cast<uintptr_t>(B.starts),
                         reinterpret_cast<uintptr_t>(B.indices), reinterpret_cast<uintptr_t>(B.values),
                         reinterpret_cast<uintptr_t>(X.data()), X.strides[0], n,
                         reinterpret_cast<uintptr_t>(result->mutable_data_ptr()), 1, 0);
}

/* Return whether `out` (n_bytes) overlaps the memory from the first to the last element of a dense tensor. */
inline bool overlaps(const char *out, size_t n_bytes, const Dense &X, size_t width)
{
    int64_t last = 0;
    for (int64_t at = 0; at < X.n_dims; ++at) last += X.strides[at] * (X.sizes[at] - 1);
    const auto one = reinterpret_cast<uintptr_t>(out), other = reinterpret_cast<uintptr_t>(X.data());
    return one < other + static_cast<size_t>(last + 1) * width && other < one + n_bytes;
}

/* Return whether `out` has no gaps and shares no memory with the operands, for a product that cannot fail halfway. */
inline bool is_apart(const Task &task, const char *out)
{
    const Dense &X = task.out;
    if (X.n_dims == 1 ? X.strides[0] != 1 : X.strides[0] != task.m) return false;
    const size_t n_bytes = static_cast<size_t>(task.A.n * task.m) * task.width();
    const auto values = reinterpret_cast<uintptr_t>(task.A.values), start = reinterpret_cast<uintptr_t>(out);
    return !overlaps(out, n_bytes, task.B, task.width()) &&
           !(start < values + task.A.nnz * task.width() && values < start + n_bytes) &&
           !(task.adds() && overlaps(out, n_bytes, task.base, task.width()));
}

/* Compute the result in `out`; return false, with `out` unchanged, if that is impossible here. */
inline bool compute_into_out(const Task &task)
{
    char *out = static_cast<char *>(task.out.tensor->mutable_data_ptr());
    if (is_apart(task, out)) return compute(task, out);
    if (!task.is_small) return false;
    std::vector<char> result(static_cast<size_t>(task.A.n * task.m) * task.width()); /* out may overlap an operand */
    if (!compute(task, result.data())) return false;
    move(out, task.out.strides[0], result.data(), task.m, 1, task.A.n, task.m, task.width());
    return true;
}

/* Write the number of entries of each row, at least 1. */
template <class Value, class Index> void write_counts(const Entries &A, Value *counts)
{
    const auto *starts = reinterpret_cast<const Index *>(A.starts);
    for (int64_t i = 0; i < A.n; ++i) counts[i] = static_cast<Value>(std::max<Index>(starts[i + 1] - starts[i], 1));
}

/* Return the number of entries of each row, at least 1, as a column of the matrix's dtype. */
template <class Value> at::Tensor counts_of(const Entries &A)
{
    at::Tensor counts(at::detail::empty_cpu({A.n, 1}, A.dtype));
    const auto write = A.is_wide ? write_counts<Value, int64_t> : write_counts<Value, int32_t>;
    write(A, static_cast<Value *>(counts.mutable_data_ptr()));
    return counts;
}

inline void divide_by_counts(const Entries &A, at::Tensor *sums)
{
    sums->div_(A.dtype == at::kDouble ? counts_of<double>(A) : counts_of<float>(A));
}

/* planned: `id` names a structure that belongs to the executor; composed: the product is one of these, or other
 * operators add and scale faster. */
enum class Answer { computed, declined, planned, composed };

/* Decide whether the product is computed here, and compute it in `out` or in `*result`. */
inline Answer serve(Task &task, at::Tensor *result, int64_t *id)
{
    const Entries &A = task.A;
    const int64_t m = task.m, most = INT64_MAX >> 8;
    if (!is_real(A.dtype) && !task.is_product()) return Answer::declined; /* complex results are not scaled here */
    if (!task.is_small && (A.nnz > most / m || A.n > most / m)) return Answer::declined;
    if (!A.starts && A.nnz * m >= limits.coordinates) return Answer::declined; /* worth keeping its rows */
    const Verdict verdict = validate(A);
    if (!verdict.is_sound) return Answer::declined;
    if (!task.is_small) {
        if (!task.is_product() && A.n * m >= limits.direct / 4) return Answer::composed; /* worth threads */
        task.how = ask_how();
        if (task.how < 1024 && A.nnz * m >= limits.direct && verdict.id && verdict.n_products > limits.unprepared &&
            verdict.n_products > limits.repaid / (A.nnz * m)) {
            if (task.has_base || task.has_out || task.is_mean) return Answer::composed;
            *id = verdict.id;
            return Answer::planned;
        }
    }
    if (task.has_out) return compute_into_out(task) ? Answer::computed : Answer::declined;
    const int64_t shape[2] = {A.n, m};
    *result = room({shape, static_cast<size_t>(task.B.n_dims)}, A.dtype);
    if (!compute(task, static_cast<char *>(result->mutable_data_ptr()))) return Answer::declined;
    if (task.is_mean) divide_by_counts(A, result);
    return Answer::computed;
}

/* Compute the result by operators of PyTorch, the first of which is a product of ours. */
inline at::Tensor composed(const Task &task)
{
    const at::Tensor &A = *task.A.matrix, &B = *task.B.tensor;
    at::Tensor result = B.dim() == 1 ? at::mv(A, B) : at::mm(A, B);
    if (task.alpha != 1) result.mul_(task.alpha);
    if (task.adds()) result.add_(*task.base.tensor, task.beta);
    if (task.is_mean) divide_by_counts(task.A, &result);
    return task.has_out ? task.out.tensor->copy_(result) : result;
}

}  // namespace asp_torch
