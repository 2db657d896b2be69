"""Partitions of a matrix by whole rows that are worth measuring: long or dense rows apart from the others.

They are predicted from row lengths. Predictions only select what is measured; a measured partition competes with the
best single format.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from autosparse.tuner.hybrid.costs import CSR, PrimitiveCosts

from autosparse.core.composite import REST, Rows, Selection
from autosparse.core.pattern import Pattern
from autosparse.core.values import dataclass
from autosparse.targets.priors import number

MIN_NNZ: Final = 50_000
"""Minimum number of entries for automatic partitions; products of smaller matrices are too short."""
MIN_COLUMNS: Final = 8
WORTH: Final = number("composites", "worth of a partition")
"""Maximum predicted time relative to a single format for which a partition is measured."""
MAX_OF_A_KIND: Final = 2
CUTS: Final = (8, 16, 32, 64)
MIN_SHARE: Final = number("composites", "least share of a part")
"""Minimum fraction of the entries in each part."""
DENSE: Final = 1 / 16
"""Density from which a row counts as dense, so that neighbouring rows read the same rows of B."""


@dataclass(frozen=True, slots=True)
class Partition:
    """Rules of a matrix's parts, and predicted time over CSR's."""

    selections: tuple[Selection, ...]
    predicted_ratio: float

    def __str__(self) -> str:
        return " + ".join(map(str, self.selections))


def partitions(pattern: Pattern, n_dense_cols: int, costs: PrimitiveCosts) -> list[Partition]:
    """Return the partitions of op(A) predicted to beat CSR, best first; O(rows)."""
    if pattern.nnz == 0 or min(pattern.shape) == 0:
        return []
    kept = [one for one in _by_rows(pattern, n_dense_cols, costs) if one.predicted_ratio < WORTH]
    return sorted(kept, key=lambda one: one.predicted_ratio)


def _by_rows(pattern: Pattern, n_dense_cols: int, costs: PrimitiveCosts) -> list[Partition]:
    n_rows_of = np.bincount(pattern.row_lengths)  # number of rows by length
    n_rows_from = n_rows_of[::-1].cumsum()[::-1]
    n_entries_from = (n_rows_of * np.arange(n_rows_of.size))[::-1].cumsum()[::-1]
    mean = pattern.nnz / pattern.n_rows
    cuts = sorted({*CUTS, *(int(n * mean) + 1 for n in (4, 16)), *(int(d * pattern.n_cols) + 1 for d in (DENSE, 0.25))})
    dense, long, known = [], [], set()
    for cut in cuts:
        n_long = int(n_rows_from[cut]) if cut < n_rows_of.size else 0
        share = float(n_entries_from[cut]) / pattern.nnz if n_long else 0.0
        if n_long in known or not MIN_SHARE <= share <= 1.0 - MIN_SHARE:
            continue  # another cut selects the same rows, or one part would be negligible
        density = share * pattern.nnz / (n_long * pattern.n_cols)
        selections: tuple[Selection, ...] = (Rows(cut), REST)
        if density >= DENSE and n_long >= 2 and n_dense_cols >= MIN_COLUMNS:
            ratio = 1.0 - share * (1.0 - _panel_cost(costs, density, min(n_long, 4)))
            dense.append(Partition(selections, ratio))
            known.add(n_long)
        elif cut >= 4 * mean:
            long.append(Partition(selections, 1.0 - 0.1 * min(share, 1.0 - share) - 0.02))
            known.add(n_long)
    best = [sorted(kind, key=lambda one: one.predicted_ratio)[:MAX_OF_A_KIND] for kind in (dense, long)]
    return [*best[0], *best[1]]


def _panel_cost(costs: PrimitiveCosts, density: float, n_rows: int) -> float:
    """Return the cost per entry of dense rows, in blocks of four rows by column panels, relative to CSR."""
    rate, fill = costs.rates["panel"], 1.0 - (1.0 - density) ** n_rows
    n_blocks = fill / (n_rows * density)  # columns that hold an entry of these rows, per entry
    return rate.of(0.0, n_blocks, 4.0 * n_blocks) / costs.tile(CSR, 1)
