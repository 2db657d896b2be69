"""Registration of autosparse classes in anndata's tables, which are looked up by exact type: file writers and views.

Importing this module copies the rows of SciPy's classes. If a version of anndata keeps its tables elsewhere, nothing is
registered, and anndata treats autosparse's classes like all subclasses of SciPy's.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any, Final

from autosparse.arrays.family import csc_array, csc_matrix, csr_array, csr_matrix
from autosparse.light.matrices import SCIPY_DICT

_CLASSES: Final = {ours._plain_class: ours for ours in (csr_array, csc_array, csr_matrix, csc_matrix)}

Types = Any  # a type, or a tuple with types in it


def _with_ours(key: Types, classes: Mapping[type, type]) -> Types:
    """Return `key`, types in anndata's registry, with each of SciPy's classes replaced by autosparse's."""
    if isinstance(key, tuple):
        return tuple(_with_ours(one, classes) for one in key)
    return classes.get(key, key) if isinstance(key, type) else key


def _copy_rows(table: dict[Any, Any], classes: Mapping[type, type]) -> None:
    for key, row in list(table.items()):
        table.setdefault(_with_ours(key, classes), row)


def _view_class(ours: Any, view: Any, mixin: type) -> type:
    """Return a class for AnnData's views of `ours`, such as ``adata[:2].X``, in place of anndata's class `view`.

    Copies of a view are of class `ours`, as anndata's are of SciPy's.
    """

    def copy(self: Any) -> Any:
        """Return a copy of the matrix that is independent of the AnnData object."""
        return ours(self).copy()

    body = {"copy": copy, "__dict__": SCIPY_DICT, "__doc__": view.__doc__, "__module__": __name__}
    return type(view.__name__, (mixin, ours), body)


def _register_view(views: Any, plain: type, ours: type) -> tuple[type, type]:
    """Return anndata's class for views of `plain` and the class for views of `ours`, after registering the latter."""
    view: Any = type(views.as_view(plain((1, 1)), None))
    made = _view_class(ours, view, views._ViewMixin)

    def as_view(matrix: Any, view_args: Any) -> Any:
        return made(matrix, view_args=view_args)

    views.as_view.register(ours)(as_view)
    return view, made


def _register() -> None:
    try:
        views = importlib.import_module("anndata._core.views")
        registry = importlib.import_module("anndata._io.specs.registry")._REGISTRY
        importlib.import_module("anndata._io.specs.methods")  # fills the registry
        classes = {**_CLASSES, **dict(_register_view(views, *both) for both in _CLASSES.items())}
        tables = registry.write, registry.write_specs
    except (ImportError, AttributeError):
        return
    for table in tables:
        _copy_rows(table, classes)


_register()
