"""Copies of light matrices by the module `copy`, as complete matrices make them, and their method `resize`."""

from __future__ import annotations

import copy as copying
from typing import Any

from autosparse import light
from autosparse.light.adoption import attributes
from autosparse.light.matrices import FIELDS, Light, completed


def copy(A: Any) -> Any:
    """Return another matrix over the arrays of A."""
    copied: Any = object.__new__(type(A))
    Light.__setstate__(copied, A.__getstate__())
    return copied


def deepcopy(A: Any, memo: dict[int, Any]) -> Any:
    """Return another matrix over copies of the arrays of A."""
    memo[id(A)] = copied = object.__new__(type(A))
    state = {**attributes(A), **dict(zip(FIELDS, A._light.arrays, strict=True))}
    Light.__setstate__(copied, copying.deepcopy(state, memo))
    if (rows := light.rows_of(copied)) is not None:
        rows.copied_bytes = sum(array.nbytes for array in rows.arrays)
    return copied


def resize(A: Any, *shape: Any) -> None:
    """Resize A, which becomes complete."""
    completed(A, "resize")(*shape)
