"""Layout of sliced formats, as kernels read it. The module needs no NumPy: builds run the emitter without it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from autosparse.core.formats import PRESETS, Format, LevelKind

LEVELS: Final = (PRESETS["SELL"].levels, PRESETS["SELL with diagonals"].levels)
"""Levels of the sliced formats."""
SIDES: Final[Mapping[str, tuple[str, int]]] = {
    "begin": ("pos", 3),
    "what": ("crd", 3),
    "first": ("crd", 4),
    "rows": ("crd", 5),
    "table": ("crd", 6),
}
"""Arrays in addition to those of the levels: name -> where a kernel finds them (kind, depth)."""
INDEX_BITS: Final = (16, 32)

WIDE: Final = 0
NARROW: Final = 1
DIAGONAL: Final = 2
KIND_MASK: Final = 3
IN_ORDER: Final = 4
BASE_SHIFT: Final = 3


def has_diagonals(fmt: Format) -> bool:
    """Return whether slices may store diagonals."""
    return fmt.levels[1].kind is LevelKind.DIAGONAL
