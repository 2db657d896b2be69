"""Features of a tiled program on a pattern that no machine is needed for: tiles, row visits, distinct columns.

The counts are the same on every tiled accelerator, so that a model learns their cost once. They take O(nonzeros log
nonzeros) per row-panel height. DASH does not have them: its network combines pattern and program itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from autosparse.tuner.research.targets.accelerator import Accelerator, Configuration
from autosparse.tuner.research.targets.simulation import row_order
from numpy.typing import NDArray

from autosparse.core.dtypes import NarrowReal, Real, WideIndex
from autosparse.core.pattern import Pattern

Floats = NDArray[NarrowReal]
Ints = NDArray[WideIndex]

COUNTED: Final = (
    "tiles per entry", "rows visited per entry", "columns of panels per entry", "columns per tile", "panels",
    "share of the largest panel", "columns of a panel", "entries per tile", "bytes per panel",
)  # fmt: skip
_SEGMENT_BYTES: Final = 4


def counted(pattern: Pattern, target: Accelerator) -> Floats:
    """Return log2 of the quantities COUNTED of `pattern` for all configurations, (configurations, len(COUNTED))."""
    found = np.zeros((len(target.configurations), len(COUNTED)), NarrowReal)
    if not pattern.nnz:
        return found
    kept: dict[tuple[int, int, int], NDArray[Real]] = {}
    panels: dict[tuple[int, int], _Panels] = {}
    for number, configured in enumerate(target.configurations):
        one = configured.canonical(*pattern.shape, target.n_columns)
        if (one.p_row, one.reorder) not in panels:
            panels[one.p_row, one.reorder] = _Panels(pattern, one)
        key = (one.p_row, one.reorder, one.p_col)
        if key not in kept:
            kept[key] = panels[one.p_row, one.reorder].tiled(one.p_col)
        found[number] = [*kept[key], np.log2(2.0 ** kept[key][3] * one.split * _SEGMENT_BYTES)]
    return found


class _Panels:
    """Division of a pattern into row panels of one height, with the counts that do not depend on the tile width."""

    def __init__(self, pattern: Pattern, like: Configuration) -> None:
        place = np.empty(pattern.n_rows, WideIndex)
        place[row_order(pattern, like)] = np.arange(pattern.n_rows)
        self._row = np.repeat(place, pattern.row_lengths)
        self._panel = self._row // like.p_row
        self._column = pattern.indices[: pattern.nnz].astype(WideIndex)
        self._n_cols = pattern.n_cols
        self._n_distinct = _n_distinct(self._panel * pattern.n_cols + self._column)
        self._sizes = np.bincount(self._panel)

    def tiled(self, p_col: int) -> NDArray[Real]:
        """Return log2 of the quantities COUNTED, except the last, for tiles of `p_col` columns."""
        nnz = self._panel.size
        width = min(p_col, self._n_cols)
        n_wide = -(-self._n_cols // width)
        column_panel = self._column // width
        n_tiles = _n_distinct(self._panel * n_wide + column_panel)
        n_visits = _n_distinct(self._row * n_wide + column_panel)
        n_panels = np.count_nonzero(self._sizes)
        numbers = (
            n_tiles / nnz, n_visits / nnz, self._n_distinct / nnz, self._n_distinct / n_tiles, n_panels,
            self._sizes.max() / nnz, width, nnz / n_tiles,
        )  # fmt: skip
        found: NDArray[Real] = np.log2(np.array(numbers, Real))
        return found


def _n_distinct(keys: Ints) -> int:
    ascending = np.sort(keys)
    return 1 + int(np.count_nonzero(ascending[1:] != ascending[:-1]))


def additive(target: Accelerator, numbers: Sequence[int] | None = None) -> Floats:
    """Return features of configurations, (configurations, d): one-hot parameters and pairs of parameters.

    `numbers`: the configurations; None: all. Values are positions in the grid, so that coefficients fitted to them
    apply to this target only.
    """
    values = np.array([one.values for one in target.configurations])
    if numbers is not None:
        values = values[list(numbers)]
    singles = [_one_hot(values[:, at], column) for at, column in enumerate(target.grid_columns)]
    pairs = [
        (singles[a][:, :, None] * singles[b][:, None, :]).reshape(len(values), -1)
        for a in range(len(singles))
        for b in range(a)
    ]
    whole: Floats = np.hstack([*singles, *pairs]).astype(NarrowReal)
    return whole


def _one_hot(column: NDArray[Any], values: Sequence[int]) -> Floats:
    made: Floats = (column[:, None] == np.array(values)[None, :]).astype(NarrowReal)
    return made


def program_numbers(target: Accelerator) -> Floats:
    """Return log2 of the sizes, and the bits, of all configurations, (configurations, 6), comparable between grids."""
    rows = [(np.log2(one.p_row), np.log2(one.p_col), np.log2(min(one.split, target.n_columns)), *one.values[3:])
            for one in target.configurations]  # fmt: skip
    return np.array(rows, NarrowReal)
