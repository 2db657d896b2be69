"""`gauss_seidel` and `symgs`: triangles of A as preconditioners."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from scipy.sparse.linalg import LinearOperator

from autosparse.errors import InputError
from autosparse.linalg.triangular.operators import Parts, SingularError, Step, TriangularInverse
from autosparse.linalg.triangular.rows import AnyArray, first_where, inverse_of, taken
from autosparse.linalg.triangular.triangle import Triangle

SWEEPS: Final = ("forward", "backward", "symmetric")
"""Values of the argument `sweep`."""


def gauss_seidel(A: Any, sweep: str = "forward") -> LinearOperator:  # Any: a sparse or dense matrix
    """Return one Gauss-Seidel sweep from zero as a LinearOperator: the inverse of a triangle of A.

    A is square, sparse or dense, A = L + D + U with the diagonal D. `sweep` is ``"forward"`` for the inverse of D + L,
    ``"backward"`` for that of D + U, and ``"symmetric"`` for `symgs`. The operator holds copies of the values.
    LinAlgError is raised if the diagonal has a zero, InputError (a ValueError) for another `sweep`, ShapeError if A is
    not square, and InputTypeError (a TypeError) for an operator without entries.

    >>> A = asp.csr(sps.csr_array([[2.0, 1.0], [1.0, 4.0]]))
    >>> asp.linalg.gauss_seidel(A) @ np.array([2.0, 9.0])
    array([1., 2.])
    """
    if sweep not in SWEEPS:
        raise InputError.refused(
            "gauss_seidel: unknown sweep", given=f"sweep={sweep!r}", hint=f"pass one of {', '.join(map(repr, SWEEPS))}"
        )
    return _sweeps(A, "gauss_seidel", sweep)


def symgs(A: Any) -> LinearOperator:  # Any: as `gauss_seidel`
    """Return one symmetric Gauss-Seidel sweep from zero as a LinearOperator.

    It is the inverse of (D + L) D^-1 (D + U), where A = L + D + U. For a Hermitian positive definite A the operator is
    Hermitian positive definite, as `cg` requires. Arguments and errors are those of `gauss_seidel`.

    >>> A = asp.csr(sps.csr_array([[2.0, 1.0], [1.0, 4.0]]))
    >>> np.round(asp.linalg.symgs(A) @ np.array([2.0, 9.0]), 6)
    array([0., 2.])
    """
    return _sweeps(A, "symgs", "symmetric")


def _sweeps(A: Any, name: str, sweep: str) -> TriangularInverse:
    parts = Parts(A, name)
    diagonal = parts.diagonal()
    zero = first_where(lambda values: values == 0, diagonal)
    if zero >= 0:
        raise SingularError.pivot(name, zero, "the diagonal of A is zero", "add a shift to the diagonal, or permute A")
    inverse = inverse_of(diagonal)
    steps: dict[str, tuple[Step, ...]] = {
        "forward": (_strict(parts, inverse, is_backward=False),) if sweep != "backward" else (),
        "backward": (_strict(parts, inverse, is_backward=True),) if sweep != "forward" else (),
    }
    steps["symmetric"] = (*steps["forward"], np.ascontiguousarray(diagonal), *steps["backward"])
    return TriangularInverse(steps[sweep], parts.dtype, parts.n)


def _strict(parts: Parts, inverse: AnyArray, *, is_backward: bool) -> Triangle:
    """Return a triangle of A as a copy of its entries."""
    rows, split = parts.rows, parts.split
    bounds = (split.upper_start, rows.indptr[1:]) if is_backward else (rows.indptr[:-1], split.lower_stop)
    return parts.scheduled(Triangle.over(taken(rows, *bounds), inverse, is_backward=is_backward))
