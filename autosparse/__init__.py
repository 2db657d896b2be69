"""autosparse: a drop-in replacement for SciPy sparse matrices that tunes itself.

>>> import autosparse as asp
>>> A = asp.csr(m)  # a SciPy sparse array or matrix, a torch sparse tensor, (data, indices, indptr), dense, a path
>>> y = A @ x  # SciPy's answer, faster
>>> print(A.explain(x))  # what was chosen and why

Every public name of `scipy.sparse` is here too, so `import autosparse as sp` works in existing code. Names are looked
up when first used (PEP 562): `import autosparse` itself imports neither SciPy nor anything optional.
"""

from __future__ import annotations

import importlib
import importlib.util
import os.path
from typing import TYPE_CHECKING, Any

from autosparse._version import __version__ as __version__

if TYPE_CHECKING:
    from autosparse.arrays import csc as csc
    from autosparse.arrays import csc_array as csc_array
    from autosparse.arrays import csc_matrix as csc_matrix
    from autosparse.arrays import csr as csr
    from autosparse.arrays import csr_array as csr_array
    from autosparse.arrays import csr_matrix as csr_matrix
    from autosparse.arrays import matmul as matmul
    from autosparse.arrays import mttkrp as mttkrp
    from autosparse.arrays import sddmm as sddmm
    from autosparse.arrays import tensor as tensor
    from autosparse.cache import wisdom_export as wisdom_export
    from autosparse.cache import wisdom_forget as wisdom_forget
    from autosparse.cache import wisdom_import as wisdom_import
    from autosparse.config import Effort as Effort
    from autosparse.config import Options as Options
    from autosparse.config import get_options as get_options
    from autosparse.config import options as options
    from autosparse.config import set_options as set_options
    from autosparse.errors import AutosparseError as AutosparseError
    from autosparse.errors import CacheWarning as CacheWarning
    from autosparse.errors import FallbackWarning as FallbackWarning

    # last: for a type checker the first definition wins
    from scipy.sparse import *  # isort: skip  # noqa: F403

_HOMES = {
    "autosparse.arrays": (
        "csc",
        "csc_array",
        "csc_matrix",
        "csr",
        "csr_array",
        "csr_matrix",
        "matmul",
        "mttkrp",
        "sddmm",
        "tensor",
    ),
    "autosparse.cache": ("wisdom_export", "wisdom_forget", "wisdom_import"),
    "autosparse.config": ("Effort", "Options", "get_options", "options", "set_options"),
    "autosparse.errors": ("AutosparseError", "CacheWarning", "FallbackWarning"),
}
_HOME_OF = {name: module for module, names in _HOMES.items() for name in names}
_SUBMODULES = ("csgraph", "linalg", "torch")
_MAPPED = ("tuner", "cache", "_native")  # folders at the top of the repository (docs/adr/0001)


def _check_installed() -> None:
    """ImportError from a bare checkout, where `autosparse.tuner` and its like cannot be found."""
    checkout = os.path.dirname(os.path.dirname(__file__))
    if not os.path.exists(os.path.join(checkout, "pyproject.toml")):
        return
    if missing := [name for name in _MAPPED if importlib.util.find_spec(f"{__name__}.{name}") is None]:
        raise ImportError(
            f"autosparse is imported from its checkout {checkout!r}, where {', '.join(missing)} cannot be found: "
            f"these folders become autosparse.{missing[0]}, ... only by an installation.\n"
            f"  Cure: python -m pip install -e {checkout!r}"
        )


def __getattr__(name: str) -> Any:  # Any: whatever the home module keeps under this name
    if name in _HOME_OF:
        value = getattr(importlib.import_module(_HOME_OF[name]), name)
    elif name in _SUBMODULES:
        value = importlib.import_module(f"{__name__}.{name}")
    elif name == "__all__":
        value = sorted({*_HOME_OF, *_scipy_names()})
    elif not name.startswith("_") and not _is_module(name) and name in _scipy_names():
        value = getattr(importlib.import_module("scipy.sparse"), name)
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = value
    return value


def _is_module(name: str) -> bool:
    """Whether `name` is a module of ours: `from autosparse import config` asks here first and needs no SciPy."""
    return importlib.util.find_spec(f"{__name__}.{name}") is not None


def _scipy_names() -> list[str]:
    return list(importlib.import_module("scipy.sparse").__all__)


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOME_OF, *_SUBMODULES, *_scipy_names()})


_check_installed()
