"""SciPy's own classes under ours, and what their constructors leave in a fresh object."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import scipy.sparse as sps

from autosparse.arrays.fields import NAMES

FRESH_STATE: Final = {
    name: value for name, value in vars(sps.csr_array((1, 1))).items() if name not in {*NAMES, "_shape"}
}
"""Attributes besides shape and arrays (maxprint in the versions that have it)."""
_FRESH_ITEMS: Final = tuple(FRESH_STATE.items())


def _find_attributes() -> Callable[[Any], dict[str, Any]]:
    """The getter behind the ``__dict__`` of SciPy's classes, which ours show differently."""
    descriptor = next(vars(base)["__dict__"] for base in sps.csr_array.__mro__ if "__dict__" in vars(base))
    getter: Callable[[Any], dict[str, Any]] = descriptor.__get__
    return getter


attributes: Final = _find_attributes()


def set_state(made: Any, shape: tuple[int, ...]) -> None:
    """Set what constructors leave besides arrays. Attribute by attribute: the object's dict need not be made for it."""
    made._shape = shape
    for name, value in _FRESH_ITEMS:
        setattr(made, name, value)


def over(kind: type, shape: tuple[int, ...], arrays: Sequence[Any]) -> Any:
    """An object of SciPy's class `kind` over (indptr, indices, data), which are not looked at."""
    made: Any = object.__new__(kind)
    made.indptr, made.indices, made.data = arrays
    set_state(made, shape)
    return made
