"""Functions that `install` puts in place of SciPy's solvers, one for each name of `autosparse.linalg.OURS`.

Each calls autosparse's solver while `install` is active, and SciPy's otherwise. A module that imports a name while
`install` is active (``from scipy.sparse.linalg import cg``) therefore calls SciPy's solver again after `uninstall`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import scipy.sparse.linalg

from autosparse import linalg
from autosparse.interop import solver_imports

_is_active = False


def forwarder(name: str) -> Callable[..., Any]:
    """Return the function that stands for the solver `name` while `install` is active."""
    if name in globals():
        return globals()[name]  # type: ignore[no-any-return]
    scipys = getattr(scipy.sparse.linalg, name)

    @functools.wraps(scipys)
    def call(*arguments: Any, **how: Any) -> Any:
        return (getattr(linalg, name) if _is_active else scipys)(*arguments, **how)

    call.__module__, call.__qualname__ = __name__, name  # where pickle finds it
    globals()[name] = call
    return call


def __getattr__(name: str) -> Callable[..., Any]:
    if name not in linalg.OURS or not hasattr(scipy.sparse.linalg, name):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return forwarder(name)


def exchange(*, is_installed: bool) -> None:
    """Put forwarding functions in place of SciPy's solvers, or restore SciPy's where they are in place."""
    global _is_active
    _is_active = is_installed
    for name in linalg.OURS:
        if not hasattr(scipy.sparse.linalg, name):
            continue
        ours = forwarder(name)
        old, new = (ours.__wrapped__, ours) if is_installed else (ours, ours.__wrapped__)  # type: ignore[attr-defined]
        if getattr(scipy.sparse.linalg, name) is old:
            setattr(scipy.sparse.linalg, name, new)


solver_imports.catch_up()  # this module may be the first to import SciPy's solvers, by being unpickled from
