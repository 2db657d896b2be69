"""`scipy.sparse.linalg` with solvers whose vector operations are fused and run on several threads.

Every public name of `scipy.sparse.linalg` is available. Names in `_HOMES` are implemented by autosparse with SciPy's
signatures, defaults, results, warnings and errors; all others are SciPy's own objects. The modules of a solver, and the
library, are loaded when its name is first used (`from autosparse.linalg import cg`), not for SciPy's names. SciPy's
submodules (`interface`, `isolve`, ...) can be imported from this package too.

>>> x, info = asp.linalg.cg(asp.csr([[4.0, 1.0], [1.0, 3.0]]), np.array([1.0, 2.0]))
>>> info
0
"""

from __future__ import annotations

import functools
import importlib
import sys
from typing import Any, Final

from autosparse import forking

_HOMES: Final = {
    "autosparse.linalg.biconjugate": ("bicgstab",),
    "autosparse.linalg.block_eigenvalues": ("lobpcg",),
    "autosparse.linalg.conjugate_gradients": ("cg", "cgs"),
    "autosparse.linalg.eigenvalues": ("eigs", "eigsh", "svds"),
    "autosparse.linalg.exponential": ("expm_multiply",),
    "autosparse.linalg.generalised_residual": ("gmres",),
    "autosparse.linalg.least_squares.fong_saunders": ("lsmr",),
    "autosparse.linalg.least_squares.paige_saunders": ("lsqr",),
    "autosparse.linalg.minimal_residual": ("minres",),
    "autosparse.linalg.preconditioners": ("block_jacobi", "chebyshev", "jacobi"),
    "autosparse.linalg.quasi_minimal": ("qmr",),
    "autosparse.linalg.solves.tracing": ("trace",),
    "autosparse.linalg.triangular.factors": ("ic0", "ilu0"),
    "autosparse.linalg.triangular.relaxation": ("gauss_seidel", "symgs"),
    "autosparse.linalg.triangular.substitution": ("spsolve_triangular",),
}
"""Module -> names of its solvers. No module is named like a public function, because importing it would shadow that."""
_HOME_OF: Final = {name: module for module, names in _HOMES.items() for name in names}
"""Name of a solver -> its module."""
OURS: Final = tuple(_HOME_OF)
"""Names of all functions that autosparse implements."""
_scipy: Final = importlib.import_module("scipy.sparse.linalg")  # may call `solver_names`, which reads OURS


def _adopt_submodules() -> None:
    """Make `import autosparse.linalg.isolve` give the module that `import scipy.sparse.linalg.isolve` gives."""
    prefix = f"{_scipy.__name__}."
    for name in [one for one in list(sys.modules) if one.startswith(prefix)]:  # other threads import
        sys.modules.setdefault(f"{__name__}.{name.removeprefix(prefix)}", sys.modules[name])


def _own(name: str) -> Any:
    with forking.loading():
        return getattr(importlib.import_module(_HOME_OF[name]), name)


def _first(name: str) -> Any:
    """Return the function `name` that solves with small matrices before the library is loaded; None where it is."""
    if not importlib.import_module("autosparse.light").may_be_light():
        return None
    solves = importlib.import_module("autosparse.light.solves")
    if name not in solves.NAMES:
        return None
    theirs = getattr(_scipy, name)
    if theirs.__module__.startswith("autosparse"):  # while `install` is active
        theirs = theirs.__wrapped__
    return solves.LightSolver(name, theirs, functools.cache(lambda: _own(name)))


def __getattr__(name: str) -> Any:  # Any: whatever SciPy or the home module keeps under this name
    if name == "__all__":
        return sorted({*_HOME_OF, *_scipy.__all__})
    try:
        value = getattr(_scipy, name) if name not in _HOME_OF else (_first(name) or _own(name))
    except AttributeError:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}") from None
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({"__all__", "__doc__", *_HOME_OF, *dir(_scipy)})


_adopt_submodules()
