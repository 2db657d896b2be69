"""`import autosparse.scipy_compat as sp`: scipy.sparse with functions that return autosparse matrices.

`import autosparse as sp` gives SciPy's own constructors (`sp.random_array`, `sp.vstack`), which return SciPy's types
until `csr` wraps them. Here each function of scipy.sparse that returns a sparse matrix returns an autosparse matrix.
csr and csc results share SciPy's arrays. Results in other formats become csr, unless the call names a `format`.

>>> import autosparse.scipy_compat as sp
>>> A = sp.vstack([sp.eye_array(3), sp.random_array((2, 3))])  # an autosparse.csr_array
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

import scipy.sparse as sps

import autosparse
from autosparse.arrays import construct


def __getattr__(name: str) -> Any:  # Any: an attribute of scipy.sparse or autosparse
    if name == "__all__":
        return list(autosparse.__all__)
    value = getattr(autosparse, name)
    if inspect.isfunction(value) and value.__module__.startswith("scipy.sparse"):
        value = _returning_ours(value)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return dir(autosparse)


def _returning_ours(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def call(*arguments: Any, **how: Any) -> Any:
        found = function(*arguments, **how)
        if not sps.issparse(found) or found.ndim != 2:
            return found
        if found.format in ("csr", "csc"):
            return construct.wrapped(found)
        return found if how.get("format") is not None else construct.csr(found, copy=False)

    return call
