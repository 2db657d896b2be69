"""`TriangularInverse`: the product of inverses of triangles and diagonals as a LinearOperator."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sps
from numpy.linalg import LinAlgError
from scipy.sparse.linalg import LinearOperator

from autosparse._native import runtime_api
from autosparse.arrays import construct
from autosparse.arrays.family import AutoSparseMatrix
from autosparse.core.dtypes import Complex, Real
from autosparse.errors import AutosparseError
from autosparse.linalg.preconditioners import KNOWN_DTYPES, entries_of
from autosparse.linalg.solves.conversions import converted, remembered
from autosparse.linalg.triangular.rows import AnyArray, Rows, Split, canonical, n_threads, rows_of, split_of
from autosparse.linalg.triangular.triangle import Schedule, Triangle, schedule_of


class SingularError(AutosparseError, LinAlgError):
    """Error for a matrix that cannot be factorized or inverted because of one of its rows."""

    @classmethod
    def pivot(cls, what: str, row: int, fault: str, hint: str) -> SingularError:
        """Build the error for the row at which `what` failed, what was found there, and what to do."""
        return cls(f"{what}: no valid pivot in row {row}: {fault}.\n  Hint: {hint}.")


class RuntimeMissingError(AutosparseError, RuntimeError):
    """Error for a function that exists only in the C runtime where that was not built."""

    @classmethod
    def needed(cls, what: str, *, fault: str) -> RuntimeMissingError:
        """Build the error for `what`; `fault` says why there is no runtime."""
        return cls(f"{what} needs the C runtime: {fault}.\n  Hint: install a wheel, or a C compiler, and reinstall.")


Step = Triangle | AnyArray  # a triangle to solve with, or factors of the rows


class TriangularInverse(LinearOperator):  # type: ignore[misc]  # SciPy's classes carry no types
    """Operator that applies steps one after the other: solves with triangles, and multiplications of the rows.

    `schedules` says for each triangle how its rows are shared by threads.
    """

    def __init__(self, steps: tuple[Step, ...], dtype: np.dtype[Any], n: int) -> None:
        super().__init__(dtype, (n, n))
        self.steps = steps
        self._made: dict[str, TriangularInverse] = {}  # in other dtypes, and transposed

    @property
    def schedules(self) -> tuple[str, ...]:
        """Return the reason for the schedule of each triangle."""
        return tuple(step.schedule.reason for step in self.steps if isinstance(step, Triangle))

    def apply_into(self, x: AnyArray, out: AnyArray) -> None:
        """Write the product with x to out; both have the operator's dtype and the same shape, and out is in C order."""
        np.copyto(out, x)
        made = self._applied(out)
        if made is not out:
            np.copyto(out, made)

    def _applied(self, X: AnyArray) -> AnyArray:
        """Apply the steps to X, which is overwritten, and return the result."""
        for step in self.steps:
            if isinstance(step, Triangle):
                X = step.solve(X)
            else:
                X *= step if X.ndim == 1 else step[:, None]
        return X

    def _matvec(self, x: AnyArray) -> AnyArray:
        return self._product(x.reshape(-1))

    def _matmat(self, X: AnyArray) -> AnyArray:
        return self._product(X)

    def _product(self, x: AnyArray) -> AnyArray:
        dtype = np.result_type(self.dtype, x.dtype)
        if dtype.char not in KNOWN_DTYPES:
            dtype = np.dtype(Complex if dtype.kind == "c" else Real)
        X = np.array(x, dtype=dtype, order="C")
        if not X.size:
            return X
        real = X.real.dtype
        if dtype.kind == "c" and self.dtype.kind != "c":  # real and imaginary parts are columns
            parts = self._in(real)._applied(X.view(real).reshape(X.shape[0], -1))
            return parts.view(dtype).reshape(X.shape)
        return self._in(dtype)._applied(X)

    def _in(self, dtype: np.dtype[Any]) -> TriangularInverse:
        """Return the operator in another dtype, which is kept."""
        if dtype == self.dtype:
            return self
        return self._kept(dtype.char, lambda step: step.astype(dtype), self.steps, dtype)

    def _kept(
        self, name: str, change: Callable[[Step], Step], steps: tuple[Step, ...], dtype: np.dtype[Any]
    ) -> TriangularInverse:
        found = self._made.get(name)
        if found is None:
            made = TriangularInverse(tuple(change(step) for step in steps), dtype, self.shape[0])
            found = self._made.setdefault(name, made)
        return found

    def _adjoint(self) -> LinearOperator:
        return self._kept("adjoint", lambda step: _reversed(step, is_conjugated=True), self.steps[::-1], self.dtype)

    def _transpose(self) -> LinearOperator:
        return self._kept("transpose", lambda step: _reversed(step, is_conjugated=False), self.steps[::-1], self.dtype)


def _reversed(step: Step, *, is_conjugated: bool) -> Step:
    if isinstance(step, Triangle):
        return step.reversed(is_conjugated=is_conjugated)
    return step.conj() if is_conjugated else step


class Parts:
    """Rows of a square matrix whose indices ascend, their split, and schedules that are kept with the matrix."""

    def __init__(self, A: Any, name: str) -> None:  # Any: whatever preconditioners take
        if not runtime_api.available:
            raise RuntimeMissingError.needed(name, fault=runtime_api.fault)
        matrix: Any = entries_of(A, name)
        if getattr(matrix, "format", None) != "csr" or not isinstance(matrix, AutoSparseMatrix):
            matrix = construct.wrapped(sps.csr_array(matrix))
        dtype = matrix.dtype if matrix.dtype.char in KNOWN_DTYPES else np.dtype(Real)
        self.matrix = matrix = converted(matrix, dtype)
        self.rows: Rows = rows_of(matrix._cell)
        self.split: Split
        split = remembered(matrix, "split", lambda: split_of(self.rows), of_values=False)
        self.is_sorted = split is not None
        if split is None:
            self.rows, split = canonical(self.rows)
        self.split = split

    @property
    def n(self) -> int:
        """Number of rows."""
        return self.rows.n

    @property
    def dtype(self) -> np.dtype[Any]:
        """Dtype of the values."""
        return self.rows.data.dtype

    def diagonal(self) -> AnyArray:
        """Return the diagonal, with zeros where A has no entry."""
        diagonal = np.zeros(self.n, self.dtype)
        stored = np.flatnonzero(self.split.upper_start > self.split.lower_stop)
        diagonal[stored] = self.rows.data[self.split.lower_stop[stored]]
        return diagonal

    def scheduled(self, triangle: Triangle) -> Triangle:
        """Return the triangle of A with its schedule, which is kept with the matrix."""
        if not self.is_sorted:
            return triangle._replace(schedule=schedule_of(triangle))
        key = ("schedule", triangle.is_backward, n_threads() > 1)
        schedule: Schedule = remembered(self.matrix, key, lambda: schedule_of(triangle), of_values=False)
        return triangle._replace(schedule=schedule)
