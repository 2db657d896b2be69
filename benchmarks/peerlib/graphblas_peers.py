"""SuiteSparse:GraphBLAS through python-graphblas: SpMV, SpMM, SDDMM, SpGEMM over the semiring plus_times.

Operands are GraphBLAS objects from the beginning, and results stay in its hands: they are copied when they are checked.
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
    """An array in GraphBLAS's hands, copied when NumPy asks for it."""

    to_numpy: Callable[[], np.ndarray]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return np.asarray(self.to_numpy(), dtype=dtype)


def _library(case: Case) -> Any:
    """Graphblas, with the case's number of threads; UnavailableError where it does not fit the library beside it."""
    try:
        import graphblas

        config = graphblas.ss.config  # loads all of it
    except (ImportError, OSError, AttributeError) as err:  # AttributeError: a constant that its library does not have
        raise UnavailableError(f"python-graphblas does not load: {err}") from err
    config["nthreads"] = case.threads
    return graphblas


def _matrix(case: Case) -> tuple[Any, Any]:
    """(graphblas, A as a Matrix by rows)."""
    graphblas = _library(case)
    if "graphblas" not in case.shared:
        case.shared["graphblas"] = graphblas.io.from_scipy_sparse(case.A)
    return graphblas, case.shared["graphblas"]


def dense(case: Case) -> Prepared:
    """``C = 0; C += A @ B`` with C and B full.

    Without the zeros GraphBLAS looks which entries C has, which takes several times as long in SpMM.
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
    """``S<A> = X @ Y`` where A has entries, and the product with A's values by ``eWiseMult``."""
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
    """``A @ A``; rows may stay unsorted until somebody reads them."""
    graphblas, A = _matrix(case)
    C, square = graphblas.Matrix(A.dtype, *A.shape), graphblas.semiring.plus_times(A @ A)

    def run() -> Foreign:
        C << square
        return Foreign(lambda: graphblas.io.to_scipy_sparse(C))

    return Prepared(run)
