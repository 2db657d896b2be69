"""Rough estimates of kernel times on one thread, which decide whether another thread can pay off."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from autosparse.core.formats import Format

ENTRY_NS: Final = 0.6
CELL_NS: Final = 0.2
GATHERED_CELL_NS: Final = 0.4
COLUMN_NS: Final = 0.04
"""Estimated times in ns: per entry, per cell of a slice by diagonals, per gathered cell, and per dense column of an
entry."""
MIXED_ROW_NS: Final = 2.5
"""Additional time in ns per row of C that threads write interleaved with each other's rows."""
SHARED_MIN_NS: Final = 12_000
"""Minimum estimated gain in ns, after subtracting the cost of interleaved rows, for another thread to pay off.

The pool's own threshold is lower (`pool.c`).
"""


SLICED: Final = "S"
"""Value of `LevelKind.SLICED`; the module is loaded without formats."""


def is_gathered(fmt: Format) -> bool:
    """Return whether the format has slices with one column index per cell."""
    return any(level.kind.value == SLICED for level in fmt.levels)


def entry_ns(fmt: Format) -> float:
    """Return the estimated time per stored entry of a matrix in the format `fmt`, in ns."""
    if is_gathered(fmt):
        return GATHERED_CELL_NS
    return CELL_NS if fmt.is_sliced else ENTRY_NS


def mixes_rows(fmt: Format, *, n_rows: int, n_cells: int) -> bool:
    """Return whether several threads would lose more than they gain by writing rows of C interleaved with each
    other's.

    Slices take the rows of a window by their lengths. If all rows are in one or two windows, neighbouring rows of C,
    which share cache lines, are computed by different threads.
    """
    return is_gathered(fmt) and mixes_sorted_rows(fmt.sigma, n_rows=n_rows, n_cells=n_cells)


def mixes_sorted_rows(sigma: int, *, n_rows: int, n_cells: int) -> bool:
    """Return `mixes_rows` of a format with one column index per cell and windows of `sigma` rows."""
    if sigma <= 1:
        return False
    mixed_ns = MIXED_ROW_NS * min(sigma, n_rows)
    return (GATHERED_CELL_NS + COLUMN_NS) * n_cells - mixed_ns < SHARED_MIN_NS
