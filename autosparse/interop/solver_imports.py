"""Replacement of SciPy's solvers by `install` at the moment when `scipy.sparse.linalg` is imported.

`scipy.sparse` does not import `scipy.sparse.linalg`, which takes 40 ms. While `install` is active and nothing has
imported that module, a finder at the front of `sys.meta_path` recognises its import, lets the other finders load it,
and then exchanges the names of its solvers. The finder removes itself from the list when that has happened.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
import types
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from typing import Final

_SOLVERS: Final = "scipy.sparse.linalg"
_EXCHANGING: Final = "autosparse.interop.solver_names"


def exchange(*, is_installed: bool) -> None:
    """Replace SciPy's solvers, or restore them, now or when `scipy.sparse.linalg` is imported."""
    if _FINDER in sys.meta_path:
        sys.meta_path.remove(_FINDER)
    if _EXCHANGING in sys.modules or (is_installed and _SOLVERS in sys.modules):
        importlib.import_module(_EXCHANGING).exchange(is_installed=is_installed)
    elif is_installed:
        sys.meta_path.insert(0, _FINDER)


def catch_up() -> None:
    """Replace the solvers if `install` is active and `scipy.sparse.linalg` was imported since."""
    names = sys.modules.get(_EXCHANGING)
    if _FINDER in sys.meta_path and (names is None or hasattr(names, "exchange")):  # else it is being imported
        exchange(is_installed=True)


class _Finder(MetaPathFinder):
    """Finder that answers for `scipy.sparse.linalg` alone, with the specification that the other finders give."""

    _is_asking = False

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: types.ModuleType | None = None
    ) -> ModuleSpec | None:
        if name != _SOLVERS or self._is_asking:
            return None
        self._is_asking = True  # `importlib.util.find_spec` asks this finder again
        try:
            spec = importlib.util.find_spec(name)
        finally:
            self._is_asking = False
        if spec is not None and spec.loader is not None:
            spec.loader = _Loading(spec.loader)
        return spec


class _Loading(Loader):
    """Loader that runs `loader` and exchanges the names of solvers in the loaded module."""

    def __init__(self, loader: Loader) -> None:
        self._loader = loader

    def create_module(self, spec: ModuleSpec) -> types.ModuleType | None:
        return self._loader.create_module(spec)

    def exec_module(self, module: types.ModuleType) -> None:
        assert module.__spec__ is not None
        module.__spec__.loader = module.__loader__ = self._loader
        self._loader.exec_module(module)
        try:
            catch_up()
        except (ImportError, OSError):  # no file descriptor left, or another root directory: the solvers stay SciPy's
            return


_FINDER: Final = _Finder()
