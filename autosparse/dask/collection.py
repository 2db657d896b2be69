"""Dask arrays of sparse blocks, cut from a matrix or created block by block."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise
from typing import Any

import dask.array as da
import numpy as np
import scipy.sparse as sps
from dask.base import tokenize
from numpy.typing import DTypeLike, NDArray

from autosparse._native.memory import empty_output
from autosparse.arrays import construct
from autosparse.dask.blocks import block, csr_block
from autosparse.errors import InputError

DEFAULT_BLOCK_BYTES = 64 << 20
"""Default bytes of a block: a tenth of a second to read, and small beside a worker's memory."""
MAX_EDGES = 1024
"""Number of pairs (part of a dense operand, block of rows) above which the parts are joined before they are sent."""


def _operator(name: str, by: Callable[..., Any]) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """Return Dask's operator `name` and its reflected form, which apply `by` to the blocks of a `SparseArray`."""

    def left(self: Any, *others: Any) -> Any:
        return (
            _elementwise(by, self, *others) if all(map(_is_known, others)) else getattr(da.Array, name)(self, *others)
        )

    def right(self: Any, other: Any) -> Any:
        return _elementwise(by, other, self) if _is_known(other) else NotImplemented

    return left, right


class SparseArray(da.Array):
    """Dask array of sparse blocks, whose products cut dense operands as the blocks are cut.

    Dask cuts both operands of a product wherever either is cut: a vector in 16 parts would cut every block of rows into
    16 blocks of columns, again in each product. This class cuts the dense operand like the sparse one instead. Values
    have the dtypes that SciPy gives them: a product of bools is bool, half of a float32 a float64. Slices and sums are
    arrays of this class, too. Other functions of Dask (map_blocks, concatenate) return Dask's own arrays. Their
    products are right, except that sums of narrow integers over several blocks have Dask's dtype.
    """

    __slots__ = ()
    __add__, __radd__ = _operator("__add__", operator.add)
    __sub__, __rsub__ = _operator("__sub__", operator.sub)
    __mul__, __rmul__ = _operator("__mul__", operator.mul)
    __truediv__, __rtruediv__ = _operator("__truediv__", operator.truediv)
    __pow__, _ = _operator("__pow__", operator.pow)
    __neg__, _ = _operator("__neg__", operator.neg)
    __abs__, _ = _operator("__abs__", operator.abs)

    def __matmul__(self, other: Any) -> Any:
        if _is_dense(other) and len(self.chunks[1]) == 1 and other.ndim in (1, 2) and other.shape[0] == self.shape[1]:
            return _product_of_rows(self, other)
        return self._as_scipy(da.matmul(self, _cut_along(other, -2, self.chunks[1])), other)

    def __rmatmul__(self, other: Any) -> Any:
        return self._as_scipy(da.matmul(_cut_along(other, -1, self.chunks[0]), self), other)

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **how: Any) -> Any:
        if ufunc is np.matmul and method == "__call__" and not how and inputs[1] is self:
            return self.__rmatmul__(inputs[0])
        return super().__array_ufunc__(ufunc, method, *inputs, **how)

    def dot(self, other: Any) -> Any:
        """Return `self` @ `other`, as `numpy.dot` does for matrices."""
        return self._as_scipy(super().dot(_cut_along(other, -2, self.chunks[1])), other)

    def _as_scipy(self, product: Any, other: Any) -> Any:
        """Convert the product with `other` to SciPy's dtype; Dask sums bools and narrow integers as int64."""
        dtype = np.result_type(self.dtype, other.dtype) if hasattr(other, "dtype") else product.dtype
        return _like_blocks(product if product.dtype == dtype else product.astype(dtype))

    def __getitem__(self, key: Any) -> Any:
        return _like_blocks(super().__getitem__(key))

    def astype(self, dtype: Any, **how: Any) -> Any:
        """Return the array with values of `dtype`."""
        return _like_blocks(super().astype(dtype, **how))

    def conj(self) -> Any:
        """Return the complex conjugate; the array itself where values are real."""
        return super().conj() if self.dtype.kind == "c" else self

    def trace(self, offset: int = 0, *arguments: Any, **how: Any) -> Any:
        """Return the sum of the elements on the diagonal `offset`."""
        diagonal = da.diagonal(self, offset).map_blocks(np.asarray, dtype=self.dtype, meta=np.empty(0, self.dtype))
        return diagonal.sum(*arguments, **how)

    def max(self, *arguments: Any, **how: Any) -> Any:
        """Return the largest element, counting zeros that are not stored; of all, or along an axis."""
        return da.max(_without_empty(self), *arguments, **how)

    def min(self, *arguments: Any, **how: Any) -> Any:
        """Return the smallest element; see `max`."""
        return da.min(_without_empty(self), *arguments, **how)

    def argmax(self, *arguments: Any, **how: Any) -> Any:
        """Return the index of the largest element; of all, counted row by row, or along an axis."""
        return da.argmax(_in_order(self), *arguments, **how)

    def argmin(self, *arguments: Any, **how: Any) -> Any:
        """Return the index of the smallest element; see `argmax`."""
        return da.argmin(_in_order(self), *arguments, **how)

    def transpose(self, *axes: Any) -> Any:
        """Return the transpose, of transposed blocks."""
        return _sparse(super().transpose(*axes))

    def copy(self) -> Any:
        """Return the same array: Dask's arrays are immutable."""
        return _sparse(super().copy())

    def _rebuild(self, dsk: Any, *, rename: Any = None) -> Any:
        return _sparse(super()._rebuild(dsk, rename=rename))

    def __reduce__(self) -> Any:
        return SparseArray, super().__reduce__()[1]


def _sparse(A: da.Array) -> Any:
    return SparseArray(A.dask, A.name, A.chunks, A.dtype, A._meta)


def _like_blocks(A: Any) -> Any:
    """Convert a Dask array of two-dimensional sparse chunks to a `SparseArray`; return other arrays unchanged."""
    return _sparse(A) if A.ndim == 2 and sps.issparse(A._meta) and not isinstance(A, SparseArray) else A


def _is_known(other: Any) -> bool:
    """Return whether `other` is a scalar, a NumPy array or a Dask array, for which block operators are defined here."""
    return isinstance(other, (da.Array, np.ndarray, np.generic, int, float, complex))


def _elementwise(by: Callable[..., Any], *operands: Any) -> Any:
    """Apply the function `by` to the operands block by block, with the dtype that it has for sparse blocks."""
    with np.errstate(all="ignore"):
        dtype = by(*map(_tiny, operands)).dtype
    return _like_blocks(da.core.elemwise(partial(_on_blocks, by), *operands, dtype=dtype))


def _tiny(operand: Any) -> Any:
    """Return an array of one element in place of a Dask or NumPy array, to find a result's dtype; keep scalars."""
    if not isinstance(operand, (da.Array, np.ndarray)):
        return operand
    if isinstance(operand, da.Array) and sps.issparse(operand._meta):
        return csr_block(np.ones((1, 1), operand.dtype))
    return np.ones((1,) * operand.ndim, operand.dtype)


def _on_blocks(by: Callable[..., Any], *operands: Any) -> Any:
    return block(by(*operands))


def _without_empty(A: SparseArray) -> da.Array:
    """Return A without empty blocks, whose maximum does not exist."""
    for axis, extents in enumerate(A.chunks):
        kept = [at for at, extent in enumerate(extents) if extent] or [0]
        if len(kept) < len(extents):
            A = A.blocks[(slice(None),) * axis + (kept,)]
    return A


def _in_order(A: SparseArray) -> da.Array:
    """Return A cut only along rows, so that the first of equal elements is found in row order."""
    A = _without_empty(A)
    return A if A.numblocks[1] == 1 else A.rechunk({1: -1})


def _is_dense(other: Any) -> bool:
    if isinstance(other, da.Array):
        return not isinstance(other, SparseArray) and not sps.issparse(other._meta)
    return isinstance(other, np.ndarray)


def _product_of_rows(A: SparseArray, dense: Any) -> da.Array:
    """Compute A @ dense where no block of A is cut along columns: one task for each block, without a sum of parts.

    Each task joins the parts of `dense`, so that a worker fetches the missing parts in parallel. If a separate task
    joined them, all of `dense` would go to one worker first, and from there to all.
    """
    dense = dense if isinstance(dense, da.Array) else da.from_array(dense, chunks=-1)
    if dense.numblocks[0] * A.numblocks[0] > MAX_EDGES:
        dense = _cut_along(dense, -2, A.chunks[1])
    dtype = np.result_type(A.dtype, dense.dtype)
    of_dense, of_result = ("jk", "ik") if dense.ndim == 2 else ("j", "i")
    meta = np.empty((0,) * dense.ndim, dtype)
    # A's columns have a separate index: Dask would cut blocks along a shared index alike, and A's are not cut.
    return da.blockwise(
        _times, of_result, A, "iq", dense, of_dense, concatenate=None, align_arrays=False, dtype=dtype, meta=meta
    )


def _times(blocks: list[Any], parts: list[Any]) -> Any:
    """Return the one block in `blocks` times the dense `parts`, stacked vertically in recycled memory."""
    (A,) = blocks
    if len(parts) == 1:
        return A @ parts[0]
    shape = (A.shape[1], *parts[0].shape[1:])
    return A @ np.concatenate(parts, out=empty_output(shape, np.result_type(*parts)))


def _cut_along(dense: Any, axis: int, chunks: tuple[int, ...]) -> Any:
    """Cut the dense Dask array `dense` into `chunks` along `axis` (for a vector: its only axis)."""
    if not isinstance(dense, da.Array) or not _is_dense(dense):
        return dense
    axis = dense.ndim + max(axis, -dense.ndim)
    fits = axis < dense.ndim and dense.shape[axis] == sum(chunks)  # otherwise Dask raises its own error
    return dense.rechunk({axis: chunks}) if fits and dense.chunks[axis] != chunks else dense


def balanced_chunks(indptr: NDArray[Any], n_blocks: int) -> tuple[int, ...]:
    """Return the rows of each of at most `n_blocks` blocks with about equal numbers of stored entries.

    `indptr` (m + 1,): row starts. Rows are never cut, so that a block may exceed its share by up to one row.

    >>> asp.dask.balanced_chunks(np.array([0, 8, 9, 10, 16]), 2)
    (1, 3)
    """
    n_rows = len(indptr) - 1
    if n_rows <= 0:
        return (0,)
    shares = np.linspace(int(indptr[0]), int(indptr[-1]), n_blocks + 1)[1:-1]
    cuts = np.searchsorted(indptr, shares)  # the nearer of the two row boundaries around each share's end
    cuts -= shares - indptr[np.maximum(cuts - 1, 0)] < indptr[cuts] - shares
    bounds = np.unique(np.concatenate(([0], cuts, [n_rows])))
    return tuple(int(step) for step in np.diff(bounds))


def from_csr(m: Any, chunks: Any = "balanced", *, n_blocks: int | None = None) -> SparseArray:
    """Return a Dask array whose chunks are blocks of rows of `m`.

    `m`: any argument of `autosparse.csr`. `chunks`: "balanced" cuts rows by stored entries into `n_blocks` (default:
    blocks of about 64 MiB), an integer is the number of rows of each block, a sequence the rows of each block; a pair
    of these also cuts columns. Raises InputError (ValueError) for chunks that do not add up to the shape.

    >>> A = asp.dask.from_csr(sps.eye_array(10, format="csr"), n_blocks=2)
    >>> A.chunks
    ((5, 5), (10,))
    >>> float((A @ np.ones(10)).sum().compute())
    10.0
    """
    A = construct.csr(m, copy=False)
    rows, columns = chunks if isinstance(chunks, tuple) and len(chunks) == 2 and _is_nested(chunks) else (chunks, -1)
    if isinstance(rows, str):
        rows = _balanced(rows, A, n_blocks)
    by_row, by_column = _normal(rows, A.shape[0]), _normal(columns, A.shape[1])
    name = f"autosparse-{tokenize(A, by_row, by_column)}"
    starts, lefts = _bounds(by_row), _bounds(by_column)
    graph = {
        (name, i, j): _cut(A, rows=(top, bottom), columns=None if len(by_column) == 1 else (left, right))
        for i, (top, bottom) in enumerate(pairwise(starts))
        for j, (left, right) in enumerate(pairwise(lefts))
    }
    return SparseArray(graph, name, (by_row, by_column), meta=_empty(A.dtype))


def from_blocks(
    make: Callable[..., Any], chunks: tuple[Sequence[int], Sequence[int]], *, dtype: DTypeLike, name: str = "made"
) -> SparseArray:
    """Return a Dask array of the sparse matrices ``make(i, j)``, created block by block where they are computed.

    `make` returns any argument of `autosparse.csr`, of shape ``(chunks[0][i], chunks[1][j])`` and of `dtype`. Computing
    a block of another shape raises InputError (ValueError). `name` begins the names of the tasks in Dask's dashboard.

    >>> A = asp.dask.from_blocks(lambda i, j: sps.eye_array(3, format="csr") * (i + 1), ([3, 3], [3]), dtype=float)
    >>> (A @ np.ones(3)).compute()
    array([1., 1., 1., 2., 2., 2.])
    """
    by_row, by_column = (tuple(int(extent) for extent in axis) for axis in chunks)
    label = f"{name}-{tokenize(make, by_row, by_column, str(np.dtype(dtype)))}"
    graph = {
        (label, i, j): (_made, make, (i, j), (m, n), np.dtype(dtype))
        for i, m in enumerate(by_row)
        for j, n in enumerate(by_column)
    }
    return SparseArray(graph, label, (by_row, by_column), meta=_empty(dtype))


def _made(make: Callable[..., Any], at: tuple[int, int], shape: tuple[int, int], dtype: Any) -> Any:
    found = block(construct.csr(make(*at), copy=False))
    if found.shape != shape:
        raise InputError.refused(
            f"block {at} of a Dask array has another shape than its chunks say",
            given=f"shape {found.shape}, chunks say {shape}",
            hint="let make(i, j) return a matrix of shape (chunks[0][i], chunks[1][j])",
        )
    return found if found.dtype == dtype else found.astype(dtype)


def _cut(A: Any, *, rows: tuple[int, int], columns: tuple[int, int] | None) -> Any:
    """Copy A's rows in the range `rows` (and columns in `columns`) into a new block that is independent of A."""
    indptr, indices, data = (A._cell.peek(field) for field in range(3))
    first, last = int(indptr[rows[0]]), int(indptr[rows[1]])
    starts = indptr[rows[0] : rows[1] + 1] - indptr[rows[0]]
    if columns is None:
        parts = starts.astype(indptr.dtype, copy=False), indices[first:last].copy(), data[first:last].copy()
        return csr_block._of_rows((rows[1] - rows[0], A.shape[1]), parts)
    strip = sps.csr_array((data[first:last], indices[first:last], starts), shape=(rows[1] - rows[0], A.shape[1]))
    return block(strip[:, columns[0] : columns[1]])


def _empty(dtype: DTypeLike) -> csr_block:
    return csr_block((0, 0), dtype=dtype)


def _is_nested(chunks: tuple[Any, ...]) -> bool:
    """Return whether `chunks` is a pair (chunks of rows, chunks of columns), not row counts of blocks alone."""
    return not all(isinstance(one, (int, np.integer)) for one in chunks)


def _balanced(word: str, A: Any, n_blocks: int | None) -> tuple[int, ...]:
    if word != "balanced":
        raise InputError.refused(
            f"chunks {word!r} are not known", given=repr(word), hint='pass "balanced", or numbers of rows'
        )
    if n_blocks is None:
        entry_bytes = A.dtype.itemsize + A._cell.peek(1).itemsize
        n_blocks = max(1, -(-A.nnz * entry_bytes // DEFAULT_BLOCK_BYTES))
    return balanced_chunks(A._cell.peek(0), n_blocks)


def _normal(chunks: Any, extent: int) -> tuple[int, ...]:
    """Return the lengths of the blocks along an axis of length `extent`; `chunks` is one length or all of them."""
    if isinstance(chunks, (int, np.integer)):
        step = extent if chunks < 0 else int(chunks)
        if extent == 0 or step == 0:
            return (extent,)
        return tuple(min(step, extent - start) for start in range(0, extent, step))
    found = tuple(int(one) for one in chunks)
    if sum(found) != extent or min(found, default=0) < 0:
        raise InputError.refused(
            "chunks must add up to the extent that they cut",
            given=f"chunks {found} for an extent of {extent}",
            hint="pass numbers of rows that add up to it, one number, or chunks='balanced'",
        )
    return found


def _bounds(steps: Sequence[int]) -> list[int]:
    return [0, *np.cumsum(steps).tolist()]
