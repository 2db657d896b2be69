"""Candidate tiles of a matrix as arrays: for each operator, the tile that each entry belongs to."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from autosparse.tuner.hybrid.costs import Operator
from numpy.typing import NDArray

from autosparse.core.dtypes import WideIndex
from autosparse.core.pattern import Pattern
from autosparse.core.values import dataclass

Array = NDArray[Any]  # int64, float64 or booleans

WINDOW_ROWS: Final = 4
"""Rows per window whose tiles a withdrawal replaces together; a multiple of every block height."""


@dataclass(frozen=True, eq=False)
class Tiles:
    """Tiles into which one operator divides the entries of a matrix.

    `tile_of` numbers the tile of each entry (-1: none). `group_of` numbers the run of `height` rows that each tile
    lies in.
    """

    operator: Operator
    tile_of: Array
    group_of: Array
    height: int

    @property
    def n_tiles(self) -> int:
        """Return the number of tiles."""
        return int(self.group_of.size)


def blocks(pattern: Pattern, operator: Operator) -> Tiles:
    """Return the aligned blocks that contain an entry."""
    rows, columns = pattern.rows_of_entries(), pattern.indices[: pattern.nnz].astype(WideIndex)
    n_across = -(-pattern.n_cols // operator.c)
    numbers, tile_of = np.unique(rows // operator.r * n_across + columns // operator.c, return_inverse=True)
    return Tiles(operator, tile_of, numbers // n_across, operator.r)
