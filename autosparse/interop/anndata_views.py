"""Rows for our classes in anndata's tables, which it looks up by exact type: writers of files, and views.

Importing this module copies the rows of SciPy's classes. Where a version of anndata keeps its tables elsewhere nothing
is registered, and it treats our classes as it treats all subclasses of SciPy's.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any, Final

from autosparse.arrays.family import _SCIPY_DICT, csc_array, csc_matrix, csr_array, csr_matrix

_CLASSES: Final = {ours._plain_class: ours for ours in (csr_array, csc_array, csr_matrix, csc_matrix)}

Types = Any  # a type, or a tuple with types in it


def _with_ours(key: Types, classes: Mapping[type, type]) -> Types:
    """The types of a row with our class in the place of SciPy's."""
    if isinstance(key, tuple):
        return tuple(_with_ours(one, classes) for one in key)
    return classes.get(key, key) if isinstance(key, type) else key


def _copy_rows(table: dict[Any, Any], classes: Mapping[type, type]) -> None:
    for key, row in list(table.items()):
        table.setdefault(_with_ours(key, classes), row)


def _view_class(ours: Any, theirs: Any, mixin: type) -> type:
    """The class of ``adata[:2].X``; its copies are of our class, as anndata's are of SciPy's."""

    def copy(self: Any) -> Any:
        """The matrix itself, apart from what it was a view of."""
        return ours(self).copy()

    body = {"copy": copy, "__dict__": _SCIPY_DICT, "__doc__": theirs.__doc__, "__module__": __name__}
    return type(theirs.__name__, (mixin, ours), body)


def _register_view(views: Any, plain: type, ours: type) -> tuple[type, type]:
    """Anndata's class of views of `plain`, and the one of views of `ours` after its registration."""
    theirs: Any = type(views.as_view(plain((1, 1)), None))
    made = _view_class(ours, theirs, views._ViewMixin)

    def as_view(matrix: Any, view_args: Any) -> Any:
        return made(matrix, view_args=view_args)

    views.as_view.register(ours)(as_view)
    return theirs, made


def _register() -> None:
    try:
        views = importlib.import_module("anndata._core.views")
        registry = importlib.import_module("anndata._io.specs.registry")._REGISTRY
        importlib.import_module("anndata._io.specs.methods")  # fills it
        classes = {**_CLASSES, **dict(_register_view(views, *both) for both in _CLASSES.items())}
        tables = registry.write, registry.write_specs
    except (ImportError, AttributeError):
        return
    for table in tables:
        _copy_rows(table, classes)


_register()
