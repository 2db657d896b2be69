"""Half-precision storage of values: float32 rounded to bfloat16 or float16, and widened exactly to float32 for
computing.

Used only on request (setting `storage`). Every value v is stored as v (1 + e) with |e| <= BOUNDS[kind], rounded to
nearest, ties to even. Values that are too large, too small or not finite for this are refused. So a product of rows a
and columns b has an error of at most BOUNDS[kind] * sum |a_k b_k|, in addition to the rounding of the float32 sum.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from autosparse.core.dtypes import Half, HalfBits, NarrowReal, Word
from autosparse.core.formats import Format
from autosparse.errors import PackError
from autosparse.scalar import HALF, SCALARS

Array = NDArray[Any]  # float32, or uint16 as stored

BOUNDS: Final[Mapping[str, float]] = {name: SCALARS[name].rounding for name in HALF}
"""Maximum relative error of a stored value, by kind."""
WIDTH: Final = 2
"""Bytes of a stored value."""


def _to_bfloat16(values: Array) -> Array:
    bits = values.view(Word)
    even = bits >> Word(16) & Word(1)
    stored: Array = ((bits + Word(0x7FFF) + even) >> Word(16)).astype(HalfBits)
    return stored


def _from_bfloat16(stored: Array) -> Array:
    values: Array = (stored.astype(Word) << Word(16)).view(NarrowReal)
    return values


def _to_float16(values: Array) -> Array:
    with np.errstate(over="ignore"):
        return values.astype(Half).view(HalfBits)


def _from_float16(stored: Array) -> Array:
    return stored.view(Half).astype(NarrowReal)


ROUND: Final[Mapping[str, tuple[Callable[[Array], Array], Callable[[Array], Array]]]] = {
    "bfloat16": (_to_bfloat16, _from_bfloat16),
    "float16": (_to_float16, _from_float16),
}
"""Functions that round and widen values, by kind."""


def narrowed(values: Array, fmt: Format) -> Array:
    """Return `values` (float32) as `fmt` stores them, uint16.

    Raises PackError if one of them would exceed the error bound.
    """
    values = np.ascontiguousarray(values)
    to_stored, from_stored = ROUND[fmt.values]
    stored = to_stored(values)
    with np.errstate(invalid="ignore", over="ignore"):
        is_near = np.abs(from_stored(stored) - values) <= NarrowReal(BOUNDS[fmt.values]) * np.abs(values)
    if not is_near.all():
        worst = float(values[int(np.argmin(is_near))])
        raise PackError.unfit(fmt, f"{worst!r} is not within {BOUNDS[fmt.values]:.3g} of any {fmt.values}, relatively")
    return stored


def widened(stored: Array, fmt: Format) -> Array:
    """Return values that `narrowed` has stored, as float32."""
    return ROUND[fmt.values][1](stored)
