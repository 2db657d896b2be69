"""Registration of autosparse classes with libraries that the process has imported.

Some libraries look a matrix up by its exact type, or by the module of its type. They accept SciPy's classes and refuse
subclasses. Each row of `PENDING` names such a library and the autosparse module that registers the classes there.
`sys.modules` is searched for the libraries whenever a matrix is made. Nothing is imported, and there is no import hook.
"""

from __future__ import annotations

import importlib
import sys
import types
from typing import Final

PENDING: Final[dict[str, str]] = {
    "anndata": "autosparse.interop.anndata_views",
    "dask.array": "autosparse.interop.dask_chunks",
    "threadpoolctl": "autosparse.interop.thread_limits",
}
"""Libraries not seen yet -> autosparse module whose import registers the classes with the library."""

_modules: Final = sys.modules


def greet() -> None:
    """Register with the libraries that were imported since the last call (0.1 us where there are none)."""
    for name in PENDING:
        if name in _modules and not _is_being_imported(_modules[name]):
            _register(name)
            greet()  # PENDING has changed
            return


def _is_being_imported(module: types.ModuleType) -> bool:
    return bool(getattr(module.__spec__, "_initializing", False))


def _register(name: str) -> None:
    """Import the module that registers with the library `name`, unless another thread has done so."""
    module = PENDING.pop(name, None)
    if module is not None:
        importlib.import_module(module)
