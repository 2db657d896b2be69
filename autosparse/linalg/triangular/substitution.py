"""`spsolve_triangular`: forward and backward substitution with SciPy's signature."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sps
from numpy.linalg import LinAlgError

from autosparse._native import memory, runtime_api
from autosparse.arrays import construct
from autosparse.arrays.family import AutoSparseMatrix
from autosparse.core.dtypes import NarrowReal, Real
from autosparse.linalg.arguments import scipys
from autosparse.linalg.solves import Solve
from autosparse.linalg.solves.conversions import converted, remembered
from autosparse.linalg.solves.tracing import VECTORS
from autosparse.linalg.triangular.rows import (
    DTYPES,
    AnyArray,
    Rows,
    Split,
    canonical,
    inverse_of,
    n_threads,
    rows_of,
    split_of,
    taken,
)
from autosparse.linalg.triangular.triangle import MIN_WORK, Schedule, Triangle, schedule_of
from autosparse.notices import warn_at


def spsolve_triangular(  # noqa: PLR0917 - SciPy's signature
    A: Any, b: Any, lower: bool = True, overwrite_A: bool = False, overwrite_b: bool = False,
    unit_diagonal: bool = False,
) -> AnyArray:  # fmt: skip  # Any: whatever SciPy's function takes
    """Solve A x = b for a triangular A.

    Parameters
    ----------
    A
        Sparse array of shape (n, n), in CSR or CSC format. Other formats are converted, with a SparseEfficiencyWarning.
    b
        Right-hand sides of shape (n,) or (n, k).
    lower
        True: A is lower triangular. False: A is upper triangular.
    overwrite_A
        Accepted for compatibility with SciPy, without effect: A is never changed.
    overwrite_b
        True: x may be written into b.
    unit_diagonal
        True: the diagonal is taken to be 1, whatever A stores there.

    Returns
    -------
    x of the shape of b.

    Raises
    ------
    LinAlgError if the diagonal has a zero, or if A has entries other than zero on the other side of the diagonal.
    ValueError if the shapes are invalid.

    For an autosparse array, the position of the diagonal, its inverse and the schedule of the rows are kept with the
    matrix until its structure or values change. The result does not depend on the number of threads.

    >>> A = asp.csr(sps.csr_array([[2.0, 0.0], [1.0, 4.0]]))
    >>> asp.linalg.spsolve_triangular(A, np.array([2.0, 9.0]))
    array([1., 2.])
    """
    matrix = _compressed(A) if runtime_api.available else A
    dtype = _result_dtype(matrix, b, unit_diagonal)
    if dtype is None:
        return scipys("spsolve_triangular")(  # type: ignore[no-any-return]
            matrix, b, lower, overwrite_A=overwrite_A, overwrite_b=overwrite_b, unit_diagonal=unit_diagonal
        )
    if matrix.shape[0] != matrix.shape[1]:
        raise ValueError(f"A must be a square matrix but its shape is {matrix.shape}.")
    is_kept = isinstance(matrix, AutoSparseMatrix)
    with Solve("spsolve_triangular", matrix) as solve:
        matrix = matrix if is_kept else construct.wrapped(matrix)
        side = _Side(bool(lower), matrix.format == "csc", bool(unit_diagonal), is_kept)
        triangle = _triangle_of(converted(matrix, dtype), side)
        X = _right_sides(b, matrix.shape, dtype, is_overwritten=overwrite_b)
        solve.note(triangle.schedule.reason)
        return solve.timed(VECTORS, triangle.solve, X) if X.size else X


class _Side(NamedTuple):
    """The triangle that is solved with, and how it is found."""

    is_lower: bool
    is_transposed: bool  # the compressed rows are the columns of A
    is_unit: bool
    is_kept: bool  # the matrix lives on after the call, so that an analysis pays

    @property
    def is_left(self) -> bool:
        """Return whether the entries of the triangle lie left of the diagonal of the compressed rows."""
        return self.is_lower != self.is_transposed

    def bounds(self, rows: Rows, split: Split) -> tuple[AnyArray, AnyArray]:
        """Return the begin and end of the entries of each row off the diagonal."""
        return (rows.indptr[:-1], split.lower_stop) if self.is_left else (split.upper_start, rows.indptr[1:])

    def other_bounds(self, rows: Rows, split: Split) -> tuple[AnyArray, AnyArray]:
        """Return the begin and end of the entries of each row on the other side of the diagonal."""
        return (split.upper_start, rows.indptr[1:]) if self.is_left else (rows.indptr[:-1], split.lower_stop)


class _Plan(NamedTuple):
    """Facts of the structure of a triangle: the split of its rows, None unless their indices ascend."""

    split: Split | None
    schedule: Schedule
    gathered: tuple[AnyArray, AnyArray, AnyArray] | None  # of a scattered triangle: rows, and the order of their values


class _Values(NamedTuple):
    """Facts of the values of a triangle. Rows whose indices do not ascend are copied."""

    copy: tuple[Rows, Split] | None
    inverse: AnyArray | None
    gathered: AnyArray | None  # values of `_Plan.gathered`


def _compressed(A: Any) -> Any:  # Any: as `spsolve_triangular`
    """Return A in CSR or CSC format; warn as SciPy does if it must be converted."""
    if not sps.issparse(A) and hasattr(A, "to_scipy_sparse"):  # of pydata/sparse
        return A.to_scipy_sparse().tocsc()
    if sps.issparse(A) and A.format in ("csr", "csc"):
        return A
    message = "CSC or CSR matrix format is required. Converting to CSC matrix."
    warn_at(3, message, sps.SparseEfficiencyWarning)
    return sps.csc_array(A)


def _result_dtype(A: Any, b: Any, is_unit: bool) -> np.dtype[Any] | None:  # Any: as `spsolve_triangular`
    """Return the dtype of x; None if SciPy's function must compute, or refuse, it."""
    if not runtime_api.available or len(A.shape) != 2:
        return None
    dtype = A.dtype if A.dtype.kind not in "biu" or is_unit else np.dtype(Real)
    b = np.asanyarray(b)
    if type(b) is not np.ndarray:  # x is of its class
        return None
    try:
        dtype = np.promote_types(np.promote_types(dtype, NarrowReal), b.dtype)
    except TypeError:
        return None
    return dtype if dtype.char in DTYPES else None


def _right_sides(b: Any, shape: tuple[int, int], dtype: np.dtype[Any], *, is_overwritten: bool) -> AnyArray:
    """Return b in C order and in `dtype`, as an array that may be written to; raise ValueError as SciPy does."""
    b = np.asanyarray(b)
    if b.ndim not in (1, 2):
        raise ValueError(f"b must have 1 or 2 dims but its shape is {b.shape}.")
    if shape[0] != b.shape[0]:
        raise ValueError(
            "The size of the dimensions of A must be equal to the size of the first dimension of b but the shape of A "
            f"is {shape} and the shape of b is {b.shape}."
        )
    if is_overwritten and type(b) is np.ndarray and b.dtype == dtype and b.flags.carray:
        return b
    X = memory.empty_output(b.shape, dtype)
    np.copyto(X, b, casting="unsafe")
    return X


def _triangle_of(A: Any, side: _Side) -> Triangle:  # Any: an autosparse array
    """Return the triangle of A in the dtype of A, from what is kept with A; raise LinAlgError if it is singular."""
    operand, name = A._cell, (side.is_lower, n_threads() > 1)
    rows: Rows | None = None

    def found_rows() -> Rows:
        nonlocal rows
        rows = rows_of(operand) if rows is None else rows
        return rows

    plan = remembered(A, ("triangle", *name), lambda: _plan_of(found_rows(), side), of_values=False)
    values = remembered(A, ("triangle's values", side.is_unit, *name), lambda: _values_of(found_rows(), plan, side))
    own, split = (found_rows(), plan.split) if values.copy is None else values.copy
    assert split is not None
    if plan.gathered is not None and values.gathered is not None:
        gathered = Rows(*plan.gathered[:2], values.gathered)
        triangle = Triangle.over(gathered, values.inverse, is_backward=not side.is_lower)
        return triangle._replace(schedule=plan.schedule)
    return Triangle(
        *side.bounds(own, split), own.indices, own.data, values.inverse, is_backward=not side.is_lower,
        is_scattered=side.is_transposed, schedule=plan.schedule,
    )  # fmt: skip


def _plan_of(rows: Rows, side: _Side) -> _Plan:
    split = split_of(rows)
    if split is None:
        return _Plan(None, Schedule("row after row: the indices of rows do not ascend"), None)
    if not side.is_kept:
        return _Plan(split, Schedule("row after row: the matrix is SciPy's and keeps no schedule"), None)
    bounds = side.bounds(rows, split)
    if not side.is_transposed:
        triangle = Triangle(*bounds, rows.indices, rows.data, None, is_backward=not side.is_lower)
        return _Plan(split, schedule_of(triangle), None)
    if n_threads() < 2 or rows.indices.size + 4 * rows.n < MIN_WORK:
        return _Plan(split, Schedule("column after column: too few for threads"), None)
    gathered = _gathered(rows, bounds)
    triangle = Triangle.over(Rows(*gathered[:2], rows.data), None, is_backward=not side.is_lower)
    schedule = schedule_of(triangle)
    return _Plan(split, schedule, None if schedule.order is None else gathered)


def _gathered(rows: Rows, bounds: tuple[AnyArray, AnyArray]) -> tuple[AnyArray, AnyArray, AnyArray]:
    """Return the rows of a triangle that is stored by columns: indptr, indices, and the positions of their values."""
    positions = Rows(rows.indptr, rows.indices, np.arange(rows.indices.size))
    off_diagonal = taken(positions, *bounds)
    indptr, indices, order, _ = runtime_api.transpose(off_diagonal, (rows.n, rows.n), threads=n_threads())
    assert order is not None
    return indptr, indices, order


def _values_of(rows: Rows, plan: _Plan, side: _Side) -> _Values:
    copy = None if plan.split is not None else canonical(rows)
    own, split = (rows, plan.split) if copy is None else copy
    assert split is not None
    inverse = None
    if not side.is_unit:
        if split.missing >= 0 or not (diagonal := own.data[split.lower_stop]).all():
            raise LinAlgError("A is singular: zero entry on diagonal.")
        inverse = inverse_of(diagonal)
    n_others = split.n_right if side.is_left else split.n_left
    if n_others and taken(own, *side.other_bounds(own, split)).data.any():
        kind = "lower" if side.is_lower else "upper"
        raise LinAlgError(
            f"A is not {kind} triangular: it has entries on the other side of the diagonal.\n"
            f"  Hint: pass scipy.sparse.tri{kind[0]}(A), or lower={not side.is_lower}."
        )
    return _Values(copy, inverse, None if plan.gathered is None else rows.data[plan.gathered[2]])
