"""SciPy's solvers as autosparse calls them: their warnings name the line that called autosparse's function."""

from __future__ import annotations

import functools
import sys
import types
import warnings
from collections.abc import Callable
from typing import Any

import scipy.sparse.linalg

from autosparse.light.namespace import over


def scipys(name: str) -> Callable[..., Any]:
    """Return SciPy's function `name`, even inside `autosparse.install`. Its warnings name the line that called ours."""
    return _relocated(name, getattr(scipy.sparse.linalg, name))


@functools.cache
def _relocated(name: str, found: Any) -> Callable[..., Any]:  # Any: a function with attributes
    found = found.__wrapped__ if found.__module__.startswith("autosparse.") else found
    module = sys.modules.get(found.__module__)
    is_known = module is not None and getattr(module, name, None) is found
    return _warning_at_callers(module).get(name, found) if is_known else found  # type: ignore[no-any-return]


@functools.cache
def _warning_at_callers(module: Any) -> dict[str, Callable[..., Any]]:
    """Return the functions of a module of SciPy, whose warnings pass over frames of autosparse."""
    relocated = types.SimpleNamespace(**vars(warnings) | {"warn": _warn})
    return over(module, {"warnings": relocated} | ({"warn": _warn} if hasattr(module, "warn") else {}))


def _warn(message: Any, category: Any = None, stacklevel: int = 1, **how: Any) -> None:  # Any: as `warnings.warn`
    """Emit a warning of SciPy's functions at the frame that they mean when autosparse's are not between."""
    frame, level = sys._getframe(1), 2
    while stacklevel > 1 and (caller := frame.f_back) is not None:
        frame, level = caller, level + 1
        if not frame.f_globals.get("__name__", "").startswith("autosparse."):
            stacklevel -= 1
    warnings.warn(message, category, level, **how)
