"""SciPy's own test files of solvers, loaded with the solvers of `autosparse.linalg` in place of SciPy's.

`over_ours` executes such a file again. While it is executed, each solver name that it imports refers to a function that
converts the matrix of a call to our class, calls our solver, and counts what computed the answer (`CALLS`).
"""

from __future__ import annotations

import contextlib
import functools
import importlib.util
import sys
import threading
import types
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any, Final

import numpy as np
import pytest
import scipy.sparse as sps
import scipy.sparse.linalg

import autosparse as asp
from autosparse.linalg import arguments
from autosparse.linalg.eigenvalues import MatrixOperator
from autosparse.linalg.solves import Solve

SOLVERS: Final = (
    "cg", "cgs", "bicgstab", "minres", "gmres", "qmr", "lsqr", "lsmr",
    "lobpcg", "eigsh", "eigs", "svds", "expm_multiply", "spsolve_triangular",
)  # fmt: skip
"""Names of the solvers that are replaced by ours."""

ARPACK: Final = ("eigsh", "eigs", "svds")
"""Solvers for which SciPy iterates with products by our kernels."""

RAN: Final = ("ours", "as given", "SciPy")
CALLS: Final[Counter[tuple[str, str]]] = Counter()
"""Number of calls by (solver, one of `RAN` or "arguments"), which names the code that computed the answer.

"arguments" counts calls that ended before their first product, by an error or by b = 0, without a call of SciPy's
function.
"""


class Switch:
    """Choice of the matrices that are converted to our class before a call."""

    dense = False  # convert dense matrices too


def over_ours(name: str) -> dict[str, Any]:
    """Return what the module `name` of SciPy's tests defines, with our solvers in the place of SciPy's."""
    found = pytest.importorskip(name, reason="this SciPy was installed without its tests")
    spec = importlib.util.spec_from_file_location(f"{__name__}.{name.rpartition('.')[2]}", found.__file__)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    module.__package__ = name.rpartition(".")[0]
    with _names_lead_to_ours():
        spec.loader.exec_module(module)
    return {name: value for name, value in vars(module).items() if not name.startswith("__")}


@contextlib.contextmanager
def _names_lead_to_ours() -> Iterator[None]:
    """Exchange SciPy's solvers in every module below scipy.sparse.linalg."""
    ours = {id(getattr(scipy.sparse.linalg, name)): counting(name) for name in SOLVERS}
    changed = [
        (module, name, value)
        for module in list(sys.modules.values())
        if isinstance(module, types.ModuleType) and module.__name__.startswith("scipy.sparse.linalg")
        for name, value in list(vars(module).items())
        if id(value) in ours
    ]
    # SciPy 1.18 and later look their functions up in a table of the array libraries that each supports.
    supported = getattr(sys.modules.get("scipy._lib._array_api"), "xp_capabilities_table", {})
    supported |= {ours[id(value)]: supported[value] for _, _, value in changed if value in supported}
    try:
        for module, name, value in changed:
            setattr(module, name, ours[id(value)])
        yield
    finally:
        for module, name, value in changed:
            setattr(module, name, value)


@functools.cache
def counting(name: str) -> Callable[..., Any]:
    """Return a function that calls our solver `name` with a matrix of our class and counts what computed its answer."""
    theirs = getattr(scipy.sparse.linalg, name)
    ours = getattr(asp.linalg, name)

    @functools.wraps(theirs)
    def call(*args: Any, **how: Any) -> Any:
        if args:
            args = (made_ours(args[0]), *args[1:])
        elif "A" in how:
            how["A"] = made_ours(how["A"])
        if ours is theirs or threading.current_thread() is not threading.main_thread():
            return ours(*args, **how)
        with _watched(name, *args, **how):
            return ours(*args, **how)

    return call


@contextlib.contextmanager
def _watched(name: str, A: Any = None, *_: Any, **how: Any) -> Iterator[None]:
    """Count one call of the solver `name` under the code that computed its answer.

    A call that begins a `Solve` counts as "ours", and a call of SciPy's function as "SciPy". `eigsh`, `eigs` and `svds`
    count as "ours" when SciPy iterates with our operator. They count as "as given" without a sparse matrix or with a
    factorization. So do calls that none of our iterations supports: `lobpcg` with so few rows that SciPy calls LAPACK,
    and long double.
    """
    seen: set[str] = set()

    def enter(solve: Solve) -> Solve:
        seen.add("ours")
        return began(solve)

    def theirs(*args: Any, **how: Any) -> Any:
        is_given = name in ARPACK and (not sps.issparse(A) or how.get("sigma") is not None)
        is_given = is_given or (name == "lobpcg" and _is_for_lapack(*args[1:], **how)) or _is_long_double(args)
        seen.add("ours" if isinstance(args[0], MatrixOperator) else "as given" if is_given else "SciPy")
        return function(*args, **how)

    began, function = Solve.__enter__, arguments.scipys(name)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Solve, "__enter__", enter)
        patch.setattr(scipy.sparse.linalg, name, theirs)
        try:
            yield
        finally:
            CALLS[name, next((one for one in RAN if one in seen), "arguments")] += 1


def _is_for_lapack(X: Any = None, B: Any = None, M: Any = None, Y: Any = None, *_: Any, **how: Any) -> bool:
    """Return whether `lobpcg` of these blocks is solved by LAPACK: fewer than five rows for each column."""
    X, Y = how.get("X", X), how.get("Y", Y)
    n_constraints = 0 if np.ndim(Y) != 2 else np.shape(Y)[1]
    return np.ndim(X) == 2 and np.shape(X)[0] - n_constraints < 5 * np.shape(X)[1]


def _is_long_double(args: tuple[Any, ...]) -> bool:
    dtypes = [getattr(one, "dtype", None) for one in args[:2]]
    return any(dtype is not None and np.dtype(dtype).char in "gG" for dtype in dtypes)


def made_ours(A: Any) -> Any:
    """Return a sparse matrix (with `Switch.dense` also a numeric dense one) in our class, and anything else
    unchanged.
    """
    if sps.issparse(A) and A.ndim == 2:
        return asp.csc(A) if A.format == "csc" else asp.csr(A)
    if Switch.dense and type(A) is np.ndarray and A.ndim == 2 and A.dtype.char in "fdFDlqi":
        return asp.csr(A)
    return A
