"""SciPy's own classes under ours, and what their constructors leave in a fresh object."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import scipy.sparse as sps

from autosparse.arrays.fields import NAMES

FRESH_STATE: Final = {
    name: value for name, value in vars(sps.csr_array((1, 1))).items() if name not in {*NAMES, "_shape"}
}
"""Attributes besides shape and arrays (maxprint in the versions that have it)."""


def _find_attributes() -> Callable[[Any], dict[str, Any]]:
    """The getter behind the ``__dict__`` of SciPy's classes, which ours show differently."""
    descriptor = next(vars(base)["__dict__"] for base in sps.csr_array.__mro__ if "__dict__" in vars(base))
    getter: Callable[[Any], dict[str, Any]] = descriptor.__get__
    return getter


attributes: Final = _find_attributes()


def over(kind: type, shape: tuple[int, ...], arrays: Mapping[str, Any]) -> Any:
    """An object of SciPy's class `kind` over these arrays, which are not looked at."""
    made: Any = object.__new__(kind)
    made.__dict__ = {**FRESH_STATE, "_shape": shape, **arrays}
    return made
