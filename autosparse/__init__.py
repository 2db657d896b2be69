"""autosparse: a drop-in replacement for SciPy sparse matrices that tunes itself.

>>> import autosparse as asp
>>> A = asp.csr(m)  # a SciPy sparse array or matrix, a torch sparse tensor, (data, indices, indptr), dense, a path
>>> y = A @ x  # SciPy's result, computed faster
>>> print(A.explain(x))  # what was chosen and why

Every public class and function of `scipy.sparse` is here too, so existing code can use `import autosparse as sp`. A
function that returns a sparse object returns autosparse's class of the format that SciPy's function returns. Names are
looked up at first use (PEP 562): `import autosparse` itself imports neither SciPy nor an optional package.
"""

from __future__ import annotations

import importlib
import importlib.util
import os.path
import sys
from typing import TYPE_CHECKING, Any

from autosparse import forking as forking  # first: later forks wait for imports of other threads

if TYPE_CHECKING:
    # SciPy has modules `csr` and `csc`. Of two imports of a name mypy takes the first and pyright the last, so this
    # package's names come first and last.
    from autosparse._names import *  # noqa: F403
    from autosparse._version import __version__ as __version__
    from scipy.sparse import *  # isort: skip  # noqa: F403
    from autosparse._names import *  # isort: skip  # noqa: F403

_HOMES = {
    "autosparse.light.matrices": ("csc_array", "csc_matrix", "csr_array", "csr_matrix"),
    "autosparse.light.into": ("matmul",),
    "autosparse.arrays.sampled": ("sddmm",),
    "autosparse.arrays.sparse_tensor": ("mttkrp", "tensor"),
    "autosparse.contraction.surface": ("einsum_path",),
    "autosparse.cache": ("wisdom_export", "wisdom_forget", "wisdom_import"),
    "autosparse.ops.registry": ("register_solver", "unregister_solver"),
    "autosparse.light.construct": ("csc", "csr"),
    "autosparse.light.expressions": ("einsum",),
    "autosparse.config": ("Effort", "Options", "get_options", "options", "set_options"),
    "autosparse.errors": ("AutosparseError",),
    "autosparse.interop.installing": ("install", "uninstall"),
    "autosparse.notices": ("CacheWarning", "FallbackWarning", "SnapshotWarning"),
}
_HOME_OF = {name: module for module, names in _HOMES.items() for name in names}
_SUBMODULES = ("csgraph", "dask", "linalg", "scipy_compat", "torch")
_DEPRECATED = ("ours",)  # modules that warn when they are imported
_MAPPED = ("tuner", "cache", "_native")  # top-level folders that are installed as subpackages


def _check_installed() -> None:
    """Raise ImportError for a bare checkout, where subpackages such as `autosparse.tuner` cannot be found."""
    checkout = os.path.dirname(os.path.dirname(__file__))
    finders = [getattr(one, "__module__", None) or "" for one in sys.meta_path]
    if any(name.startswith(f"__editable___{__name__}_") for name in finders):  # in .2 ms less than finding a module
        return
    is_checkout = os.path.exists(os.path.join(checkout, "pyproject.toml"))
    if not is_checkout or importlib.util.find_spec(f"{__name__}.{_MAPPED[0]}") is not None:  # one finder has them all
        return
    if missing := [name for name in _MAPPED if importlib.util.find_spec(f"{__name__}.{name}") is None]:
        raise ImportError(
            f"autosparse is imported from its checkout {checkout!r}, where {', '.join(missing)} cannot be found: "
            f"these folders become autosparse.{missing[0]}, ... only by an installation.\n"
            f"  Hint: python -m pip install -e {checkout!r}"
        )


def _without_garbage(module: str) -> Any:
    """Import a module of this package while the garbage collector is disabled (`forking.loading`).

    SciPy is imported before, with the collector enabled, because its modules leave garbage; without collection the
    process would use 6 MB more.
    """
    if module.startswith(("autosparse.arrays", "autosparse.contraction", "autosparse.light")):
        importlib.import_module("scipy.sparse")
    with forking.loading():
        return importlib.import_module(module)


def __getattr__(name: str) -> Any:  # Any: the attribute of the home module
    if name in _HOME_OF:
        value = getattr(_without_garbage(_HOME_OF[name]), name)
    elif name in _SUBMODULES or name in _DEPRECATED:
        value = importlib.import_module(f"{__name__}.{name}")
    elif name == "__version__":
        value = importlib.import_module("autosparse._version").__version__
    elif name == "__all__":
        value = sorted({*_HOME_OF, *_scipy_names()})
    elif not name.startswith("_") and not _is_module(name) and name in _scipy_names():
        value = importlib.import_module("autosparse.light.namespace").offered(name)
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = value
    return value


def _is_module(name: str) -> bool:
    """Return whether `name` is a module of this package. `from autosparse import config` asks `__getattr__` first."""
    at = os.path.join(os.path.dirname(__file__), name)  # a finder would take .1 ms
    return name in _MAPPED or os.path.exists(at) or os.path.exists(f"{at}.py")


def _scipy_names() -> list[str]:
    return list(importlib.import_module("scipy.sparse").__all__)


def __dir__() -> list[str]:
    """List the public names of the package and of `scipy.sparse`, without this module's own imports."""
    return sorted({"__version__", "__all__", "__doc__", *_HOME_OF, *_SUBMODULES, *_scipy_names()})


_check_installed()
