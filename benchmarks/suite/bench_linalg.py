"""asv benchmarks of solvers and functions of matrices, repeated in one process, beside those of SciPy."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final

import numpy as np
import scipy.sparse
import scipy.sparse.linalg

import autosparse
from autosparse.config import reload_options, set_options

RTOL: Final = 1e-8
MAX_ITERATIONS: Final = 500
LOBPCG_TOL: Final = 1e-2
N_PAIRS: Final = 4
"""Number of eigenpairs or singular triplets."""


def system() -> Any:
    """Return a symmetric positive definite matrix: the 5-point stencil on a 100 x 100 grid, in float64."""
    line = scipy.sparse.diags_array([-1.0, 2.01, -1.0], offsets=[-1, 0, 1], shape=(100, 100))
    return scipy.sparse.kronsum(line, line, format="csr")


def iterated(module: Any, A: Any, b: Any, name: str) -> Any:
    """Solve A x = b by the iterative solver `name`."""
    return getattr(module, name)(A, b, rtol=RTOL, maxiter=MAX_ITERATIONS)[0]


def least_squares(module: Any, A: Any, b: Any, name: str) -> Any:
    """Solve A x = b in the sense of least squares by the solver `name`."""
    return getattr(module, name)(A, b, atol=RTOL, btol=RTOL)[0]


def eigenvalues(module: Any, A: Any, b: Any, name: str) -> Any:
    """Return the largest eigenvalues of A by `eigs` or `eigsh`."""
    return getattr(module, name)(A, N_PAIRS, v0=b)[0]


def singular_values(module: Any, A: Any, b: Any) -> Any:
    """Return the largest singular values of A."""
    return module.svds(A, N_PAIRS, v0=b)[1]


def blocked_eigenvalues(module: Any, A: Any, b: Any) -> Any:
    """Return the largest eigenvalues of A by `lobpcg`, from a block of random vectors."""
    X = np.random.default_rng(0).standard_normal((b.size, N_PAIRS))
    return module.lobpcg(A, X, tol=LOBPCG_TOL, maxiter=MAX_ITERATIONS)[0]


def exponential(module: Any, A: Any, b: Any) -> Any:
    """Return exp(A) @ b."""
    return module.expm_multiply(A, b)


ITERATIVE: Final = ("bicgstab", "cg", "cgs", "gmres", "minres", "qmr")
SOLVERS: Final[Mapping[str, Callable[[Any, Any, Any], Any]]] = {
    **{name: partial(iterated, name=name) for name in ITERATIVE},
    **{name: partial(least_squares, name=name) for name in ("lsqr", "lsmr")},
    **{name: partial(eigenvalues, name=name) for name in ("eigs", "eigsh")},
    "svds": singular_values, "lobpcg": blocked_eigenvalues, "expm_multiply": exponential,
}  # fmt: skip
"""Solvers of `autosparse.linalg` that SciPy has too; triangular systems are among the operations."""


class Solver:
    """Repeated solution of one system, or decomposition of one matrix."""

    params = (tuple(SOLVERS), ("scipy", "ours"))
    param_names = ("solver", "by")
    timeout = 120.0

    def setup(self, solver: str, by: str) -> None:
        self.folder = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)  # threads may still write plans
        set_options(cache_dir=self.folder.name)
        m = system()
        self.b = np.random.default_rng(0).standard_normal(m.shape[0])
        self.A = m if by == "scipy" else autosparse.csr(m)
        self.module = scipy.sparse.linalg if by == "scipy" else autosparse.linalg
        self.time_solve(solver, by)

    def teardown(self, solver: str, by: str) -> None:
        reload_options()
        self.folder.cleanup()

    def time_solve(self, solver: str, by: str) -> None:
        SOLVERS[solver](self.module, self.A, self.b)
