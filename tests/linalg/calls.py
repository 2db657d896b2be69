"""Calls of every solver for a small system, for laws that hold for all solvers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np
import scipy.sparse as sps
from scipy.sparse.linalg import LinearOperator, aslinearoperator

import autosparse as asp

Matvec = Callable[[Any], Any]

WITH_CALLBACK: Final = ("cg", "cgs", "bicgstab", "minres", "gmres", "qmr")
LEAST_SQUARES: Final = ("lsqr", "lsmr")
EIGENVALUES: Final = ("lobpcg", "eigsh", "eigs", "svds")
EVERY: Final = (*WITH_CALLBACK, *LEAST_SQUARES, *EIGENVALUES, "expm_multiply")


def plain(side: int = 24, dtype: str = "d") -> Any:
    """Return a shifted Laplacian of a grid, a CSR array of SciPy's with side^2 rows."""
    one = sps.diags_array([-np.ones(side - 1), 2.05 * np.ones(side), -np.ones(side - 1)], offsets=[-1, 0, 1])
    return sps.kronsum(one, one, format="csr").astype(dtype)


def vector(n: int, dtype: str = "d", seed: int = 0) -> Any:
    """Return n random numbers, complex ones for a complex dtype."""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal(n)
    return (x + 1j * rng.standard_normal(n) if np.dtype(dtype).kind == "c" else x).astype(dtype)


def call(name: str, A: Any, *, steps: int = 12, seed: int = 0, **how: Any) -> tuple[Any, ...]:
    """Call the solver `name` of ours with a vector drawn by `seed`; return its results as a tuple."""
    n, dtype = A.shape[0], A.dtype.char
    b, solver = vector(n, dtype, seed), getattr(asp.linalg, name)
    if name == "gmres":
        how = {"restart": steps, "maxiter": 2, **({"callback_type": "pr_norm"} if "callback" in how else {}), **how}
    elif name in WITH_CALLBACK or name == "lsmr":
        how = {"maxiter": steps, **how}
    elif name == "lsqr":
        how = {"iter_lim": steps, **how}
    elif name == "lobpcg":
        b = np.random.default_rng(seed).standard_normal((n, 3)).astype(dtype)
        how = {"maxiter": steps, "tol": 1e-12, **how}
    elif name in EIGENVALUES:
        k, how = 3, {"v0": b, "tol": 0.1, **how}
        found = solver(A, k, **how)
        return found if isinstance(found, tuple) else (found,)
    elif name == "expm_multiply":
        how = {"traceA": 4.1 * n, **how}
    found = solver(A, b, **how)
    return found if isinstance(found, tuple) else (found,)


def operator(A: Any, before: Callable[[], object]) -> LinearOperator:
    """Return A as an operator that calls `before` before each product with A or its adjoint."""
    inner = aslinearoperator(A)

    def matvec(x: Any) -> Any:
        before()
        return inner.matvec(x)

    def rmatvec(x: Any) -> Any:
        before()
        return inner.rmatvec(x)

    def matmat(X: Any) -> Any:
        before()
        return inner.matmat(X)

    return LinearOperator(A.shape, matvec, rmatvec=rmatvec, matmat=matmat, dtype=A.dtype)


def bits(found: tuple[Any, ...]) -> list[bytes]:
    """Return the bytes of every result."""
    return [np.ascontiguousarray(one).tobytes() for one in found]
