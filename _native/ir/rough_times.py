"""Rough times of what kernels do, on one thread: can another one pay?"""

from __future__ import annotations

from typing import Final

from autosparse.core.formats import Format, LevelKind

ENTRY_NS: Final = 0.6
CELL_NS: Final = 0.2
GATHERED_CELL_NS: Final = 0.4
COLUMN_NS: Final = 0.04
"""Of an entry, a cell of a slice, one of a slice whose columns are not side by side, and a column of an entry."""
MIXED_ROW_NS: Final = 2.5
"""What a row of C costs that threads write among each other's."""
SHARED_MIN_NS: Final = 12_000
"""What must be left when mixed rows are taken off for another thread to pay; the pool asks for less (`pool.c`)."""


def is_gathered(fmt: Format) -> bool:
    """Whether it has slices whose cells have a column each."""
    return any(level.kind is LevelKind.SLICED for level in fmt.levels)


def entry_ns(fmt: Format) -> float:
    """Time of a stored entry."""
    if is_gathered(fmt):
        return GATHERED_CELL_NS
    return CELL_NS if fmt.is_sliced else ENTRY_NS


def mixes_rows(fmt: Format, *, n_rows: int, n_cells: int) -> bool:
    """Whether several threads would lose more than they gain, because each writes rows of C among the others'.

    Slices take the rows of a window by their lengths: where all rows are in one window or two, rows that are neighbours
    in C, and share its cache lines, are computed by different threads (docs/design/thread-pool.md).
    """
    if fmt.sigma <= 1 or not is_gathered(fmt):
        return False
    mixed_ns = MIXED_ROW_NS * min(fmt.sigma, n_rows)
    return (GATHERED_CELL_NS + COLUMN_NS) * n_cells - mixed_ns < SHARED_MIN_NS
