"""SuiteSparse:GraphBLAS through python-graphblas as a peer: SpMV, SpMM, SDDMM, SpGEMM over the semiring plus_times.

Operands are GraphBLAS objects from the start, and results remain GraphBLAS objects: they are copied only for checks.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from peerlib.case import Case, Prepared, UnavailableError
from peerlib.sparse_peers import Foreign


@dataclass(frozen=True, slots=True)
class Held:
    """A result held by GraphBLAS, copied when NumPy converts it."""

    to_numpy: Callable[[], np.ndarray]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return np.asarray(self.to_numpy(), dtype=dtype)


def _library(case: Case) -> Any:
    """Return graphblas with the case's number of threads; raise UnavailableError if it does not match its library."""
    try:
        import graphblas

        config = graphblas.ss.config  # loads the whole package
    except (ImportError, OSError, AttributeError) as err:  # AttributeError: a constant that the installed library lacks
        raise UnavailableError(f"python-graphblas does not load: {err}") from err
    config["nthreads"] = case.threads
    return graphblas


def _matrix(case: Case) -> tuple[Any, Any]:
    """Return graphblas, and A as a row-oriented Matrix."""
    graphblas = _library(case)
    if "graphblas" not in case.shared:
        case.shared["graphblas"] = graphblas.io.from_scipy_sparse(case.A)
    return graphblas, case.shared["graphblas"]


def dense(case: Case) -> Prepared:
    """Prepare ``C = 0; C += A @ B`` with C and B full.

    Without the zeros GraphBLAS determines the entries of C, which takes several times as long in SpMM.
    """
    graphblas, A = _matrix(case)
    kind = graphblas.Vector if case.operation.is_vector else graphblas.Matrix
    B, C = kind.from_dense(case.B), kind(A.dtype, *case.out.shape)
    sums, plus = graphblas.semiring.plus_times(A @ B), graphblas.binary.plus

    def run() -> Held:
        C[...] = 0
        C(accum=plus) << sums
        return Held(lambda: C.to_dense(0))

    return Prepared(run)


def sampled(case: Case) -> Prepared:
    """Prepare ``S<A> = X @ Y`` at the entries of A, then the product with A's values by ``eWiseMult``."""
    graphblas, A = _matrix(case)
    X, Y_rows = map(graphblas.Matrix.from_dense, case.B)
    S = graphblas.Matrix(A.dtype, *A.shape)
    dots, times = graphblas.semiring.plus_times(X @ Y_rows.T), graphblas.binary.times

    def run() -> Held:
        S(mask=A.S, replace=True) << dots
        S << times(S & A)
        return Held(lambda: S.to_coo(rows=False, columns=False)[2])

    return Prepared(run)


def product(case: Case) -> Prepared:
    """Prepare ``A @ A``; rows may stay unsorted until they are read."""
    graphblas, A = _matrix(case)
    C, square = graphblas.Matrix(A.dtype, *A.shape), graphblas.semiring.plus_times(A @ A)

    def run() -> Foreign:
        C << square
        return Foreign(lambda: graphblas.io.to_scipy_sparse(C))

    return Prepared(run)
