"""Contenders of solvers.py: SciPy, autosparse, SciPy's solvers over autosparse's matrix, and a prototype with numba."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

Solved = tuple[Any, int]
"""Solution, and iterations as reported by the solver (-1 if it reports none)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Solver:
    """One solver: the kind of its systems, and a function that calls it in a given module."""

    kind: str
    call: Callable[[Any, Any, Any, float, int], Solved]  # (module, A, System, rtol, most iterations)
    residuals: tuple[str, ...] = ("residual",)  # residuals of `child.residuals` that are checked


def _counted(name: str, **more: Any) -> Callable[[Any, Any, Any, float, int], Solved]:
    def call(lib: Any, A: Any, system: Any, rtol: float, most: int) -> Solved:
        found = getattr(lib, name)(A, system.b, rtol=rtol, maxiter=most, **more)
        return found[0], found[1]

    return call


def _gmres(lib: Any, A: Any, system: Any, rtol: float, most: int) -> Solved:
    found = lib.gmres(A, system.b, rtol=rtol, restart=20, maxiter=max(1, most // 20))
    return found[0], found[1]


def _least_squares(name: str, limit: str, at: int) -> Callable[[Any, Any, Any, float, int], Solved]:
    def call(lib: Any, A: Any, system: Any, rtol: float, most: int) -> Solved:
        found = getattr(lib, name)(A, system.b, atol=rtol, btol=rtol, **{limit: most})
        return found[0], found[at]

    return call


def _columns(lib: Any, A: Any, system: Any, rtol: float, most: int) -> Solved:
    """Solve for eight right-hand sides: a loop with SciPy, one call with autosparse."""
    if hasattr(lib, "trace"):
        return lib.cg(A, system.B, rtol=rtol, maxiter=most, columns=True)[0], -1
    each = [lib.cg(A, np.ascontiguousarray(b), rtol=rtol, maxiter=most)[0] for b in system.B.T]
    return np.stack(each, axis=1), -1


def _lobpcg(lib: Any, A: Any, system: Any, rtol: float, most: int) -> Solved:
    return lib.lobpcg(A, system.B.copy(), tol=1e-12, maxiter=min(most, 20), largest=True)[0], -1


def _expm(lib: Any, A: Any, system: Any, rtol: float, most: int) -> Solved:
    return lib.expm_multiply(A, system.b), -1


LEAST_SQUARES: Final = ("residual", "normal_residual")
SOLVERS: Final[Mapping[str, Solver]] = {
    "cg": Solver(kind="definite", call=_counted("cg")),
    "minres": Solver(kind="definite", call=_counted("minres")),
    "bicgstab": Solver(kind="unsymmetric", call=_counted("bicgstab")),
    "gmres": Solver(kind="unsymmetric", call=_gmres),
    "lsqr": Solver(kind="rectangular", call=_least_squares("lsqr", "iter_lim", 2), residuals=LEAST_SQUARES),
    "lsmr": Solver(kind="rectangular", call=_least_squares("lsmr", "maxiter", 2), residuals=LEAST_SQUARES),
    "lobpcg": Solver(kind="definite", call=_lobpcg, residuals=()),
    "expm_multiply": Solver(kind="decaying", call=_expm, residuals=()),
    "cg, 8 right sides": Solver(kind="definite", call=_columns),
}
CONTENDERS: Final = ("SciPy", "autosparse", "SciPy over ours", "prototype", "tuned")
REFERENCE: Final = "SciPy"


def takes_part(contender: str, solver: str, dtype: str) -> bool:
    """Return whether the contender takes part; the prototype and its peer have conjugate gradients in float64 only."""
    return contender not in {"prototype", "tuned"} or (solver == "cg" and dtype == "float64")


def library(contender: str, solver: str) -> Any:
    """Return the module whose solvers are called, after what `from ... import solver` loads."""
    names = {"prototype": "solverlib.prototype", "autosparse": "autosparse.linalg", "tuned": "autosparse.linalg"}
    module = importlib.import_module(names.get(contender, "scipy.sparse.linalg"))
    getattr(module, solver.partition(",")[0])
    return module


def taken(contender: str, m: Any) -> Any:
    """Return the matrix as a user of the contender prepares it, while `m` stays alive."""
    return m if contender == "SciPy" else importlib.import_module("autosparse").csr(m)


def prepare(contender: str, A: Any) -> bool:
    """Tune the matrix of the prototype or its peer, and compile the prototype's loops; return whether this was done.

    None of it is part of their times.
    """
    if contender not in {"prototype", "tuned"}:
        return False
    A.tune("matmul", columns=1, effort="measure", runs=10**5)
    if contender == "prototype":
        importlib.import_module("solverlib.prototype").prepare()
    return True
