"""`sddmm(A, X, Y)`: the product of two dense matrices, sampled at the entries of a sparse one."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import scipy.sparse as sps
from numpy.typing import NDArray

from autosparse._native import runtime_api
from autosparse.arrays import construct
from autosparse.arrays.family import AutoSparseMatrix
from autosparse.config import get_options
from autosparse.core.dtypes import NarrowIndex, WideIndex
from autosparse.core.pattern import Pattern
from autosparse.dispatch import executor
from autosparse.errors import DtypeError, InputTypeError, ShapeError, StructureError
from autosparse.operands.csr import Operand
from autosparse.operands.dense import has_rows
from autosparse.operands.native_rows import check_structure
from autosparse.ops import SDDMM
from autosparse.ops import sddmm as operation
from autosparse.scalar import REAL

AnyArray = NDArray[Any]  # Any: any dtype that NumPy multiplies

_REAL: Final = "fd"
"""Characters of dtypes whose kernels multiply by A's values themselves and can be tuned."""
_NATIVE: Final = "fdFD"
"""Characters of all dtypes that have SDDMM kernels."""
_INT32_MAX: Final = 2**31 - 1
_NUMBERS: Final = "biufcO"
"""Kinds of dtypes that can be multiplied."""


def sddmm(A: Any, X: Any, Y: Any, *, out: AnyArray | None = None) -> Any:
    """Compute S = A ∘ (X @ Y), the dense product sampled at A's entries: S[i, j] = A[i, j] * <X[i, :], Y[:, j]>.

    The product X @ Y is computed only where A stores an entry. Compiled kernels compute float and complex dtypes, NumPy
    the others.

    Parameters
    ----------
    A
        Matrix of shape (m, n), of any kind that `csr` takes.
    X, Y
        Dense arrays of shapes (m, k) and (k, n). X is read in place if its rows are contiguous, Y if its columns are
        (Fortran order). Otherwise they are copied once per call.
    out
        Array of A.nnz elements for the values of S, in the order of ``A.data``. No other result is then allocated.

    Returns
    -------
    S, of A's class (`csr_array` where A is not autosparse's), with index arrays of its own; `out` when that is given.
    Explicit zeros and duplicates of A stay separate entries, in A's order. The dtype is NumPy's promotion of all three.

    Raises
    ------
    ShapeError or LayoutError (ValueError), InputTypeError or DtypeError (TypeError), and the errors of `csr`.

    >>> A = sps.csr_array([[1.0, 0.0], [0.0, 2.0]])
    >>> asp.sddmm(A, np.ones((2, 3)), np.ones((3, 2))).toarray()
    array([[3., 0.],
           [0., 6.]])
    """
    if not isinstance(A, AutoSparseMatrix):
        A = construct.wrapped(A)
    X, Y = _dense("X", X), _dense("Y", Y)
    _check_shapes(A.shape, X, Y)
    cell = A._cell
    dtype = np.result_type(A.dtype, X.dtype, Y.dtype)
    if out is not None:
        construct.check_out(out, (cell.nnz,), dtype, hint="pass out=np.empty(A.nnz, dtype=...)")
    # The stored rows are A's rows, or A's columns: then S.T = A.T ∘ (Y.T @ X.T) is computed on the same entries.
    of_rows, of_columns = (Y.T, X) if A._transposed else (X, Y.T)
    values = _values(cell, of_rows, of_columns, dtype, out)
    if out is None:
        return A._with_values(values)
    if values is not out:
        out[...] = values
    return out


def _dense(name: str, array: Any) -> AnyArray:
    """Return `array` as a two-dimensional ndarray; raise InputTypeError, DtypeError or ShapeError otherwise."""
    if sps.issparse(array):
        hint = f"pass {name}.toarray(), or multiply sparse operands with @"
        raise InputTypeError.refused(f"sddmm: {name} must be dense", given=construct.describe(array), hint=hint)
    dense = np.asarray(array)
    if dense.dtype.kind not in _NUMBERS:
        raise DtypeError.unserved(f"sddmm: {name} holds no numbers", dtypes=[dense.dtype], known=REAL)
    if dense.ndim != 2:
        hint = f"two-dimensional {name}; vectors x and y as x[:, None] and y[None, :]"
        raise ShapeError.unfit(SDDMM.name, wanted=hint, **{name: dense.shape})
    return dense


def _check_shapes(shape: tuple[int, ...], X: AnyArray, Y: AnyArray) -> None:
    """Raise ShapeError unless A (m, n), X (m, k) and Y (k, n) fit."""
    if len(shape) != 2:
        raise ShapeError.unfit(SDDMM.name, wanted="a two-dimensional A", A=shape)
    (m, n), (x_rows, k), (y_rows, y_columns) = shape, X.shape, Y.shape
    if x_rows != m:
        raise ShapeError.unfit(SDDMM.name, wanted=f"X with a row for each of the {m} rows of A", A=shape, X=X.shape)
    if y_columns != n:
        wanted = f"Y with a column for each of the {n} columns of A" + (" (Y.T has them)" if y_rows == n else "")
        raise ShapeError.unfit(SDDMM.name, wanted=wanted, A=shape, Y=Y.shape)
    if y_rows != k:
        raise ShapeError.unfit(
            SDDMM.name, wanted=f"Y with a row for each of the {k} columns of X", X=X.shape, Y=Y.shape
        )


def _values(cell: Operand, X: AnyArray, Y: AnyArray, dtype: np.dtype[Any], out: AnyArray | None) -> AnyArray:
    """Return the values of S in the order of the stored entries, written to `out` directly where that is possible."""
    rows = cell.rows or cell.validate()
    # A product X @ Y of integers or booleans must not be computed in floating point, even if A is floating point.
    is_inexact = X.dtype is dtype or np.result_type(X, Y).kind in "fc"
    if not (is_inexact and dtype.char in _NATIVE and dtype.isnative and runtime_api.available):
        return operation.reference(_checked_pattern(cell), cell.peek(2), X, Y)
    X, Y = X.astype(dtype, copy=False), Y.astype(dtype, copy=False)
    if rows.dtype is not None and rows.dtype == dtype and dtype.char in _REAL and not _is_sparser(cell, X, Y):
        return executor.sddmm(cell, X, Y, out=out if out is not None and _is_apart(out, cell, X, Y) else None)
    pattern, X, Y = operation.with_few_rows(_checked_pattern(cell), X, Y)
    options = get_options()
    flags = runtime_api.FLAG_DETERMINISTIC if options.deterministic else 0
    values = operation.sample(pattern, X, Y, threads=options.threads or 0, flags=flags)
    values *= cell.peek(2)[: pattern.nnz]
    return values


def _is_sparser(cell: Operand, X: AnyArray, Y: AnyArray) -> bool:
    """Return whether copying all rows of X or Y costs more than copying only the rows that entries name."""
    few = operation.FEW * cell.nnz
    return (few <= cell.n_major and not has_rows(X)) or (few <= cell.n_minor and not has_rows(Y))


def _checked_pattern(cell: Operand) -> Pattern:
    """Return the pattern of `cell` after a bounds check, in index arrays that kernels accept, for any dtype."""
    if cell.rows is not None and cell.rows.dtype is not None:
        return Pattern(cell.n_major, cell.n_minor, cell.peek(0), cell.peek(1)[: cell.nnz])
    indptr, indices = cell.peek(0), cell.peek(1)
    if not {indptr.dtype.kind, indices.dtype.kind} <= {"i", "u"}:
        raise StructureError.index_dtypes(indptr.dtype, indices.dtype)
    check_structure(indptr, indices, (cell.n_major, cell.n_minor))
    # Checked indices fit the type that the extents and the number of entries need.
    is_wide = max(cell.n_major, cell.n_minor, cell.nnz) > _INT32_MAX or WideIndex in (indptr.dtype, indices.dtype)
    starts, columns = (
        np.ascontiguousarray(part, dtype=WideIndex if is_wide else NarrowIndex)
        for part in (indptr, indices[: cell.nnz])
    )
    return Pattern(cell.n_major, cell.n_minor, starts, columns)


def _is_apart(out: AnyArray, cell: Operand, X: AnyArray, Y: AnyArray) -> bool:
    """Return whether results can be written to `out` directly: it is contiguous, aligned, and disjoint from A, X, Y."""
    return out.flags.c_contiguous and out.flags.aligned and not any(
        np.may_share_memory(out, part) for part in (X, Y, *map(cell.peek, range(3)))
    )  # fmt: skip
