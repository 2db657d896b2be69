"""`import autosparse.scipy_compat as sp`: scipy.sparse with functions that return csr and csc matrices of autosparse.

The functions of `import autosparse as sp` return autosparse's classes in the format that SciPy returns, often coo or
dia. Here results in other formats than csr and csc become csr, unless the call names a `format`. Arrays are shared
where no conversion is needed.

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
from autosparse.light import namespace


def __getattr__(name: str) -> Any:  # Any: an attribute of scipy.sparse or autosparse
    if name == "__all__":
        return list(autosparse.__all__)
    value = getattr(autosparse, name)
    if name in sps.__all__ and inspect.isfunction(value) and name not in namespace.WITHOUT_SPARSE_RESULT:
        value = _returning_rows(value)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return dir(autosparse)


def _returning_rows(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def call(*arguments: Any, **how: Any) -> Any:
        found = function(*arguments, **how)
        if not sps.issparse(found) or found.ndim != 2 or found.format in ("csr", "csc"):
            return found
        return found if how.get("format") is not None else construct.csr(found, copy=False)

    call.__module__ = __name__
    return call
