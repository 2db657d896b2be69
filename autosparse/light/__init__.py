"""Classes csr and csc for programs that end early: SciPy's methods over the matrix's arrays, without the library.

Loading the library takes as long as a hundred small products. Until products and slices of the process have taken
`LOADING_NS` together, matrices are light: products are SciPy's, and no other module is imported. `complete` loads the
library. The module `arrays.family` then calls `finish`, which gives every light matrix an operand and replaces the base
`Light` of the four classes by `AutoSparseMatrix`. The classes and the objects stay the same.

A light matrix answers what a complete one answers. What SciPy's methods do not answer so (errors with hints, tuning,
assigned arrays, pickling) completes first, and so does a program that has touched an option.
"""

from __future__ import annotations

import importlib
import sys
import weakref
from collections.abc import Callable, Mapping
from time import perf_counter_ns
from typing import Any, Final

from autosparse import configured, forking

LOADING_NS: Final = 5_000_000
"""Time in ns of products and slices of light matrices after which the library is loaded.

Loading takes 5 to 8 ms, so a program spends at most about twice the lesser of SciPy's time and loading time. Larger
values lose more of what the library's kernels gain in programs of 20 to 100 ms.
"""
MAX_TERMS: Final = 1 << 22
"""Maximum number of multiplications of a product that SciPy computes: about `LOADING_NS` on one thread."""
MAX_ENTRIES: Final = 1 << 20
"""Maximum number of entries of a light matrix: more are copied by several threads."""
_OPTIONS: Final = "autosparse.config"
_NEIGHBOURS: Final = ("anndata", "dask.array", "threadpoolctl")
"""Libraries with which the complete classes are registered (`interop.neighbours`)."""
_modules: Final = sys.modules

is_complete = False
_spent_ns = 0
_is_failed = False  # whether the library could not be loaded, for example for lack of file descriptors
_is_set: bool | None = None  # whether the environment sets options; None until the first matrix
FINISHING: Final = forking.rlock()
"""Lock held while classes are finished, and while a light matrix is registered."""
alive: Final[dict[int, weakref.ref[Any]]] = {}
"""References to all light matrices, by their ids."""


def complete() -> bool:
    """Load the library, which makes every matrix complete; return whether it is loaded."""
    global _is_failed
    if is_complete:
        return True
    if sys.is_finalizing():  # modules cannot be imported: a product in `__del__` at exit
        return False
    try:
        with forking.loading():
            importlib.import_module("autosparse.arrays.construct")
    except (ImportError, OSError):  # no file descriptor left, or another root directory
        _is_failed = True
        return False
    return is_complete


def finish(bases: Mapping[type, tuple[type, ...]], give_operand: Callable[[Any, Rows], None]) -> None:
    """Make all light matrices and the four classes complete: `give_operand` sets a matrix's `_cell` from its rows."""
    global is_complete
    with FINISHING:
        for reference in list(alive.values()):
            made = reference()
            if made is not None and made._light is not None:
                give_operand(made, made._light)
                made._light = None
        alive.clear()
        for kind, wanted in bases.items():
            kind.__bases__ = wanted
        is_complete = True


def may_be_light() -> bool:
    """Return whether the library need not be loaded yet."""
    global _is_set
    if is_complete:
        return False
    if _is_failed:
        return True
    if _is_set is None:
        _is_set = configured.by_environment()
    is_touched = _is_set or _OPTIONS in _modules or any(name in _modules for name in _NEIGHBOURS)
    return _spent_ns < LOADING_NS and not is_touched


def count(start_ns: int, rows: Rows | None) -> None:
    """Add the time since `start_ns` to that of light matrices, after a method of SciPy's on `rows`.

    SciPy's methods do not keep the arrays that they fetch, so sound rows stay sound.
    """
    global _spent_ns
    _spent_ns += perf_counter_ns() - start_ns
    if rows is not None:
        rows.is_checked = True


class Rows:
    """Arrays of a light matrix, which its transpose shares."""

    __slots__ = ("arrays", "copied_bytes", "is_checked", "is_exported", "is_shared", "n_major", "n_minor")

    def __init__(self, n_major: int, n_minor: int, arrays: list[Any], copied_bytes: int | None) -> None:
        self.n_major, self.n_minor, self.arrays, self.copied_bytes = n_major, n_minor, arrays, copied_bytes
        self.is_checked = self.is_exported = self.is_shared = False

    def is_sound(self) -> bool:
        """Return whether SciPy's loops stay within the arrays, which is checked again after these were fetched."""
        if not self.is_checked:
            self.is_checked = is_sound(*self.arrays, self.n_minor)
        return self.is_checked


def is_sound(indptr: Any, indices: Any, data: Any, n_minor: int) -> bool:
    """Return whether these compressed rows are plain: row starts rise to the number of entries, indices are in bounds."""
    if indptr[0] != 0 or not indptr[-1] == indices.size == data.size or (indptr[1:] < indptr[:-1]).any():
        return False
    return not indices.size or bool(indices.min() >= 0 and indices.max() < n_minor)
