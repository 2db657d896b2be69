"""`import autosparse.scipy_compat as sp`: scipy.sparse whose functions return our matrices too.

`import autosparse as sp` gives SciPy's own constructors (`sp.random_array`, `sp.vstack`), whose results are SciPy's
until `csr` wraps them. Here each function of scipy.sparse that returns a sparse matrix returns ours: csr and csc over
the arrays that SciPy made, and what SciPy would return in another format as csr, unless the call names a `format`.

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


def __getattr__(name: str) -> Any:  # Any: whatever scipy.sparse or autosparse keep under this name
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
