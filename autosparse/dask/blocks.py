"""Chunks of Dask arrays: autosparse matrices that implement NumPy's protocols, as Dask requires.

SciPy's sparse classes lack ``__array_ufunc__`` and ``__array_function__``, so that ``np.matmul(A, B)``, which
Dask calls for ``A @ B``, fails on them. A block is a `csr_array` or `csc_array` of autosparse, with its tuning and
plans, that has both methods. A pickled block contains the hash of its pattern and the plans of that pattern.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping
from typing import Any, Final

import numpy as np
import scipy.sparse as sps

from autosparse import light
from autosparse.arrays.family import AutoSparseMatrix, csc_array, csr_array
from autosparse.dask import plan_transport
from autosparse.dask.expanded import Expanded
from autosparse.light.matrices import SCIPY_DICT

Operands = tuple[Any, ...]  # Any: arguments of NumPy's protocols


def _sum(A: Any, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: Any = False, **_: Any) -> Any:
    return _reduced(A, "sum", axis, keepdims, dtype=dtype)


def _reduction(name: str) -> Callable[..., Any]:
    def reduce(A: Any, axis: Any = None, out: Any = None, keepdims: Any = False, **_: Any) -> Any:
        return _reduced(A, name, axis, keepdims)

    return reduce


def _reduced(A: Any, name: str, axis: Any, keepdims: Any, **how: Any) -> Any:
    """Call the reduction `name` of a sparse A along `axis`; return a dense array, two-dimensional if `keepdims`."""
    axes = tuple(range(2)) if axis is None else tuple(int(n) % 2 for n in np.atleast_1d(axis))
    if 0 in A.shape:
        return getattr(np, name)(A.toarray(), axis=axes, keepdims=bool(keepdims is True), **how)
    found = getattr(A, name)(axis=None if len(axes) == 2 else axes[0], **how)
    dense = np.asarray(found.toarray() if sps.issparse(found) else found)
    shape = tuple(1 if n in axes else extent for n, extent in enumerate(A.shape))
    return dense.reshape(shape) if keepdims is True else dense.reshape([shape[n] for n in (0, 1) if n not in axes])


def _dense(A: Any, *arguments: Any, **how: Any) -> Any:
    """Convert A to a dense array (for ``np.array(A, like=block)``, whose result must not be a block)."""
    return np.array(A.toarray() if sps.issparse(A) else A, *arguments, **how)


def _place(name: str) -> Callable[..., Any]:
    def find(A: Any, axis: Any = None, out: Any = None, *, keepdims: Any = False) -> Any:
        """Call SciPy's argmax or argmin; return a dense array."""
        found = np.asarray(getattr(A, name)(axis=axis))
        if keepdims is not True:
            return found
        return found.reshape((1,) * A.ndim if axis is None else tuple(np.insert(found.shape, axis % A.ndim, 1)))

    return find


def _zeros_like(A: Any, dtype: Any = None, *, shape: Any = None, **_: Any) -> Any:
    return csr_block(A.shape if shape is None else shape, dtype=A.dtype if dtype is None else dtype)


def _concatenate(parts: Any, axis: int = 0, **_: Any) -> Any:
    return joined(list(parts), axis=axis)


_FUNCTIONS: Final[Mapping[Callable[..., Any], Callable[..., Any]]] = {
    np.transpose: lambda A, axes=None: A.transpose(axes),
    np.sum: _sum,
    np.max: _reduction("max"),
    np.min: _reduction("min"),
    np.amax: _reduction("max"),
    np.amin: _reduction("min"),
    np.argmax: _place("argmax"),
    np.argmin: _place("argmin"),
    np.array: _dense,
    np.asarray: _dense,
    np.real: lambda A: A.real,
    np.imag: lambda A: A.imag,
    np.diagonal: lambda A, offset=0, axis1=0, axis2=1: A.diagonal(offset if axis1 < axis2 else -offset),
    np.concatenate: _concatenate,
    np.vstack: lambda parts, **_: joined(list(parts), axis=0),
    np.hstack: lambda parts, **_: joined(list(parts), axis=1),
    np.zeros_like: _zeros_like,
    np.copy: lambda A, **_: A.copy(),
}
"""Implementations of NumPy's functions for blocks; NumPy raises TypeError for other functions."""

_OPERATORS: Final[Mapping[np.ufunc, tuple[str, str]]] = {
    np.add: ("__add__", "__radd__"),
    np.subtract: ("__sub__", "__rsub__"),
    np.multiply: ("__mul__", "__rmul__"),
    np.true_divide: ("__truediv__", "__rtruediv__"),
    np.power: ("__pow__", ""),
    np.negative: ("__neg__", ""),
    np.absolute: ("__abs__", ""),
    np.equal: ("__eq__", "__eq__"),
    np.not_equal: ("__ne__", "__ne__"),
    np.less: ("__lt__", "__gt__"),
    np.greater: ("__gt__", "__lt__"),
    np.less_equal: ("__le__", "__ge__"),
    np.greater_equal: ("__ge__", "__le__"),
    np.maximum: ("maximum", "maximum"),
    np.minimum: ("minimum", "minimum"),
}
"""Names of SciPy's methods for each ufunc, with a block as the left and as the right operand."""


class _Block:
    """Mixin of both classes of blocks, placed before autosparse's class."""

    __slots__ = ()

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **how: Any) -> Any:
        if method != "__call__" or how.get("out") is not None:
            return NotImplemented
        if ufunc is np.matmul:
            return _product(*inputs)
        names = _OPERATORS.get(ufunc, (ufunc.__name__, ""))
        dtype = how.get("dtype")
        found = _by_method(names, inputs)
        return found if dtype is None or found is NotImplemented else block(found).astype(dtype)

    def __array_function__(self, function: Any, types: Any, arguments: Operands, how: dict[str, Any]) -> Any:
        if (ours := _FUNCTIONS.get(function)) is None:
            return NotImplemented
        return ours(*arguments, **how)

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, tuple) and len(key) == 3 and key[0] is Ellipsis and key[1] is None:
            return Expanded(super().__getitem__((slice(None), key[2])))  # type: ignore[misc]
        return super().__getitem__(key)  # type: ignore[misc]

    def sum(self, axis: Any = None, dtype: Any = None, out: Any = None, *, keepdims: bool = False) -> Any:
        """Sum as SciPy does; with `keepdims`, which Dask passes, return a dense array of two dimensions."""
        if keepdims:
            return _reduced(self, "sum", axis, True, dtype=dtype)
        return super().sum(axis=axis, dtype=dtype, out=out)  # type: ignore[misc]

    @property
    def size(self) -> int:
        """Number of elements, as in arrays, since Dask takes an object of size 0 for empty. SciPy's `size` is nnz."""
        return math.prod(self._shape)  # type: ignore[attr-defined]

    @property
    def nbytes(self) -> int:
        """Bytes of the three arrays, for Dask's accounting of memory."""
        return int(sum(self._cell.peek(field).nbytes for field in range(3)))  # type: ignore[attr-defined]

    @property
    def _csr_container(self) -> type:
        return csr_block

    @property
    def _csc_container(self) -> type:
        return csc_block

    def __reduce__(self) -> Any:
        cell = self._cell  # type: ignore[attr-defined]
        pickled_plans = plan_transport.pickled_plans_of(
            cell
        )  # first: more references would make the arrays look shared
        return _unpickled, (type(self), self._shape, tuple(map(cell.peek, range(3))), pickled_plans)  # type: ignore[attr-defined]

    __reduce_ex__ = lambda self, protocol: self.__reduce__()  # noqa: E731  # SciPy's state does not contain the operand


class csr_block(_Block, csr_array):  # type: ignore[misc]  # noqa: N801
    """Matrix in CSR format that can be a chunk of a Dask array; a `csr_array`, with its constructor's arguments.

    >>> np.matmul(asp.dask.csr_block([[0.0, 2.0]]), np.ones(2))
    array([2.])
    """

    __dict__ = SCIPY_DICT
    _transposed = False


class csc_block(_Block, csc_array):  # type: ignore[misc]  # noqa: N801
    """Matrix in CSC format that can be a chunk of a Dask array; a `csc_array`, with its constructor's arguments.

    >>> np.transpose(asp.dask.csc_block([[0.0, 2.0]])).format
    'csr'
    """

    __dict__ = SCIPY_DICT
    _transposed = True


csr_block._twin, csc_block._twin = csc_block, csr_block


def block(m: Any) -> Any:  # Any: a block of a sparse matrix; other objects unchanged
    """Return the sparse matrix `m` as a chunk, over the same arrays for csr and csc; return other objects unchanged.

    In ``map_blocks``, functions that create sparse matrices of another class should return ``block(result)``.

    >>> type(asp.dask.block(sps.eye_array(2, format="csr"))).__name__
    'csr_block'
    """
    if isinstance(m, _Block) or not sps.issparse(m):
        return m
    made = csc_block if m.format == "csc" else csr_block
    if isinstance(m, AutoSparseMatrix) and light.takes_as_is(made, m._shape, m._cell.peek(0), m._cell.peek(1)):
        indptr, indices, data = (m._cell.peek(field) for field in range(3))
        return made._of_rows((m._shape[0], m._shape[1]), (indptr, indices, data))
    return made(m)


def joined(parts: list[Any], *, axis: int) -> Any:
    """Join the blocks vertically (axis 0) or horizontally (axis 1) into one block."""
    if len(parts) == 1:
        return block(parts[0])
    if all(part.ndim == 1 for part in parts):
        return _end_to_end(parts)
    stack, kind = (sps.vstack, "csr") if axis % 2 == 0 else (sps.hstack, "csc")
    formats = {part.format for part in parts if sps.issparse(part)}
    kind = formats.pop() if len(formats) == 1 else kind
    return block(stack([sps.csr_array(part) if not sps.issparse(part) else part for part in parts], format=kind))


def _end_to_end(parts: list[Any]) -> Any:
    """Concatenate sparse vectors, such as rows of a matrix."""
    row = sps.hstack([part.reshape(1, -1) for part in parts], format="coo")
    return type(parts[0])(row.reshape((row.shape[1],)))


def _product(left: Any, right: Any) -> Any:
    """Compute left @ right where one is a block; a column (k, 1), which Dask makes of a vector, gives a column."""
    if isinstance(left, _Block):
        if isinstance(right, np.ndarray) and right.ndim == 2 and right.shape[1] == 1:
            return operator.matmul(left, right.reshape(-1)).reshape(-1, 1)
        return operator.matmul(left, right)
    if isinstance(left, np.ndarray) and left.ndim == 2 and left.shape[0] == 1:
        return operator.matmul(right.T, left.reshape(-1)).reshape(1, -1)
    return operator.matmul(right.T, np.asarray(left).T).T


def _by_method(names: tuple[str, str], inputs: Operands) -> Any:
    """Return the result of the block's method in `names` (by the block's position); NotImplemented if there is none."""
    at = 0 if isinstance(inputs[0], _Block) else 1
    method = getattr(inputs[at], names[at] or " ", None)
    if method is None:
        return NotImplemented
    found = method(*inputs[:at], *inputs[at + 1 :])
    if sps.issparse(found) and found.format in ("csr", "csc"):
        return block(found)
    return block(found.tocsr()) if sps.issparse(found) else found


def _unpickled(kind: type, shape: tuple[int, int], arrays: Operands, pickled_plans: Any) -> Any:
    """Reconstruct a pickled block, and add its plans to this process's cache."""
    indptr, indices, data = arrays = tuple(map(plan_transport.owned, arrays))
    made = kind._of_rows(shape, arrays) if len(shape) == 2 else kind((data, indices, indptr), shape=shape)  # type: ignore[attr-defined]
    plan_transport.unpack(made._cell, pickled_plans)
    return made
