"""`ilu0` and `ic0`: incomplete factorizations on the pattern of A."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.sparse.linalg import LinearOperator

from autosparse._native import runtime_api
from autosparse.errors import InputError
from autosparse.linalg.triangular.operators import Parts, SingularError, TriangularInverse
from autosparse.linalg.triangular.rows import Rows, n_threads, taken
from autosparse.linalg.triangular.triangle import Triangle, schedule_of


def ilu0(A: Any) -> LinearOperator:  # Any: a sparse or dense matrix
    """Return the inverse of the incomplete LU factorization of A with the pattern of A as a LinearOperator.

    L (with a diagonal of ones) and U have entries only where A has, and L U equals A there. A is square, sparse or
    dense, and stores its whole diagonal. LinAlgError names the row whose diagonal entry is missing or whose pivot is
    zero. ShapeError is raised if A is not square, and InputTypeError (a TypeError) for an operator without entries.
    The analysis of the pattern is kept with an autosparse array, so that a later factorization with other values is
    faster.

    >>> A = asp.csr(sps.csr_array([[2.0, 1.0], [4.0, 3.0]]))
    >>> asp.linalg.ilu0(A) @ np.array([3.0, 7.0])
    array([1., 1.])
    """
    parts = Parts(A, "ilu0")
    rows, split = parts.rows, parts.split
    if split.missing >= 0:
        raise SingularError.pivot("ilu0", split.missing, "A has no diagonal entry", "store the whole diagonal of A")
    data, inverse = rows.data.copy(), np.empty(parts.n, parts.dtype)
    end = np.ascontiguousarray(rows.indptr[1:])
    lower = parts.scheduled(
        Triangle(rows.indptr[:-1], split.lower_stop, rows.indices.copy(), data, inverse, is_backward=False)
    )
    failed = runtime_api.lib.asp_incomplete_lu(lower.record(n_threads()), runtime_api.pointer(end))
    check_memory(failed)
    if failed >= 0:
        raise SingularError.pivot(
            "ilu0",
            failed,
            f"the pivot is {data[split.lower_stop[failed]]}",
            "add a shift to the diagonal, or permute A",
        )
    upper = parts.scheduled(Triangle(split.upper_start, end, lower.indices, data, inverse, is_backward=True))
    return TriangularInverse((lower._replace(start=rows.indptr[:-1].copy(), inverse=None), upper), parts.dtype, parts.n)


def ic0(A: Any, shift: float = 0.0) -> LinearOperator:  # Any: as `ilu0`
    """Return the inverse of the incomplete Cholesky factorization of A as a LinearOperator.

    L has entries only where the lower triangle of A has, and L L^H equals A there. A is square, sparse or dense,
    Hermitian and positive definite; entries above the diagonal are not read. The diagonal is multiplied by 1 + `shift`
    before the factorization. LinAlgError names the first row whose pivot is not positive: a larger `shift` helps.
    InputError (a ValueError) is raised for a negative `shift`, ShapeError if A is not square, and InputTypeError (a
    TypeError) for an operator without entries.

    >>> A = asp.csr(sps.csr_array([[4.0, 2.0], [2.0, 5.0]]))
    >>> asp.linalg.ic0(A) @ np.array([6.0, 7.0])
    array([1., 1.])
    """
    if not 0 <= shift < np.inf:
        raise InputError.refused("ic0: shift must not be negative", given=f"shift={shift!r}", hint="pass shift=0.01")
    parts = Parts(A, "ic0")
    diagonal = np.ascontiguousarray(parts.diagonal().real * (1 + float(shift)))
    inverse = np.empty(parts.n, parts.dtype)
    strict = taken(parts.rows, parts.rows.indptr[:-1], parts.split.lower_stop)
    lower = parts.scheduled(Triangle.over(strict, inverse, is_backward=False))
    failed = runtime_api.lib.asp_incomplete_cholesky(lower.record(n_threads()), runtime_api.pointer(diagonal))
    check_memory(failed)
    if failed >= 0:
        raise SingularError.pivot(
            "ic0", failed, f"the pivot is not positive (shift={shift:g})",
            f"pass a larger shift, such as shift={max(0.001, 10 * shift):g}, or use ilu0 if A is not positive definite",
        )  # fmt: skip
    return TriangularInverse((lower, _adjoint_of(lower, strict)), parts.dtype, parts.n)


def check_memory(failed: int) -> None:
    """Raise MemoryError for the result of a factorization that found no memory."""
    if failed < -1:
        raise MemoryError("no memory for the rows of an incomplete factorization")


def _adjoint_of(lower: Triangle, strict: Rows) -> Triangle:
    """Return the adjoint of a factor, as rows of its own if threads share them."""
    if lower.schedule.order is None:
        return lower.reversed(is_conjugated=True)
    n = lower.n
    indptr, indices, data, _ = runtime_api.transpose(strict, (n, n), threads=n_threads())
    assert data is not None
    inverse = lower.inverse
    if data.dtype.kind == "c" and inverse is not None:
        data, inverse = data.conj(), inverse.conj()
    upper = Triangle.over(Rows(indptr, indices, data), inverse, is_backward=True)
    return upper._replace(schedule=schedule_of(upper))
