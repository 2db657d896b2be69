"""Partitions of a matrix that are worth measuring, predicted from its row lengths and the fill of its blocks.

There are two kinds: by whole rows (long or dense rows apart from the others), and by value (blocks apart from scattered
entries). Predictions only select what is measured; a measured partition competes with the best single format.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np
from autosparse.tuner.hybrid.costs import CSR, Operator, PrimitiveCosts, Rate
from numpy.typing import NDArray

from autosparse.core.composite import REST, Blocks, Rows, Selection
from autosparse.core.pattern import Pattern
from autosparse.core.values import dataclass
from autosparse.targets.priors import number

Array = NDArray[Any]  # numbers of entries

FillOf = Callable[[Pattern, int, int], Array]
"""Function (pattern, r, c) -> number of entries in the aligned r x c block of each entry."""

MIN_NNZ: Final = 50_000
"""Minimum number of entries for automatic partitions; products of smaller matrices are too short."""
MIN_COLUMNS: Final = 8
WORTH: Final = number("composites", "worth of a partition")
"""Maximum predicted time relative to a single format for which a partition is measured."""
MAX_OF_A_KIND: Final = 2
SAMPLED_ENTRIES: Final = 100_000
"""Approximate number of entries searched for blocks, in groups of rows spread over the matrix."""
BLOCK_SHAPES: Final = (*((r, c) for r in (2, 4, 8) for c in (2, 4, 8)), (3, 3))
FILLS: Final = (0.5, 0.7, 0.8, 1.0)
CUTS: Final = (8, 16, 32, 64)
MIN_SHARE: Final = number("composites", "least share of a part")
"""Minimum fraction of the entries in each part."""
DENSE: Final = 1 / 16
"""Density from which a row counts as dense, so that neighbouring rows read the same rows of B."""

DEFAULT_COSTS: Final = PrimitiveCosts(
    {
        "csr": Rate(0.0, 0.75, 0.25),
        "block": Rate(0.3, 0.75, 0.5),
        "ell": Rate(0.3, 0.75, 0.25),
        "panel": Rate(0.0, 0.75, 0.25),
    },
    0.5,
    0.75,
)
"""Costs relative to an entry of CSR, used where `calibrate` has measured nothing."""


@dataclass(frozen=True, slots=True)
class Partition:
    """Rules and kinds ("dense", "long", "blocks", "rest") of a matrix's parts, and predicted time over CSR's."""

    selections: tuple[Selection, ...]
    kinds: tuple[str, ...]
    predicted_ratio: float

    def __str__(self) -> str:
        return " + ".join(map(str, self.selections))


def partitions(
    pattern: Pattern, n_dense_cols: int, fill_of: FillOf | None, costs: PrimitiveCosts = DEFAULT_COSTS,
    *, shapes: Sequence[tuple[int, int]] = BLOCK_SHAPES, worth: float = WORTH,
) -> list[Partition]:  # fmt: skip
    """Return the partitions of op(A) predicted to beat CSR, best first, by whole rows before by value; O(rows)."""
    if pattern.nnz == 0 or min(pattern.shape) == 0:
        return []
    found = [*_by_rows(pattern, n_dense_cols, costs)]
    if fill_of is not None:
        found += _by_blocks(pattern, fill_of, costs, shapes)
    kept = [one for one in found if one.predicted_ratio < worth]
    return sorted(kept, key=lambda one: ("blocks" in one.kinds, one.predicted_ratio))


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
            dense.append(Partition(selections, ("dense", "rest"), ratio))
            known.add(n_long)
        elif cut >= 4 * mean:
            long.append(Partition(selections, ("long", "rest"), 1.0 - 0.1 * min(share, 1.0 - share) - 0.02))
            known.add(n_long)
    best = [sorted(kind, key=lambda one: one.predicted_ratio)[:MAX_OF_A_KIND] for kind in (dense, long)]
    return [*best[0], *best[1]]


def _panel_cost(costs: PrimitiveCosts, density: float, n_rows: int) -> float:
    """Return the cost per entry of dense rows, in blocks of four rows by column panels, relative to CSR."""
    rate, fill = costs.rates["panel"], 1.0 - (1.0 - density) ** n_rows
    n_blocks = fill / (n_rows * density)  # columns that hold an entry of these rows, per entry
    return rate.of(0.0, n_blocks, 4.0 * n_blocks) / costs.tile(CSR, 1)


def sample_of(pattern: Pattern, shapes: Sequence[tuple[int, int]] = BLOCK_SHAPES) -> Pattern:
    """Return every n-th group of rows with about SAMPLED_ENTRIES entries; a small pattern is returned as it is.

    The group height is a multiple of every block height, so that aligned blocks are preserved.
    """
    every, group = pattern.nnz // SAMPLED_ENTRIES, math.lcm(*(r for r, _ in shapes))
    n_groups = pattern.n_rows // group
    if every < 2 or n_groups < every:
        return pattern
    first = np.arange(every // 2, n_groups, every) * group
    rows = (first[:, None] + np.arange(group)).ravel()
    indptr = np.concatenate([[0], np.cumsum(pattern.row_lengths[rows])]).astype(pattern.indptr.dtype)
    runs = zip(pattern.indptr[first], pattern.indptr[first + group], strict=True)
    indices = np.concatenate([pattern.indices[begin:end] for begin, end in runs])
    return Pattern(rows.size, pattern.n_cols, indptr, indices)


def _by_blocks(
    pattern: Pattern, fill_of: FillOf, costs: PrimitiveCosts, shapes: Sequence[tuple[int, int]]
) -> list[Partition]:  # fmt: skip
    csr, sample = costs.tile(CSR, 1), sample_of(pattern, shapes)
    if not sample.nnz:
        return []
    found = []
    for r, c in shapes:
        n_entries = np.bincount(fill_of(sample, r, c))  # number of entries by the number of entries in their block
        counts = np.arange(n_entries.size)
        for tau in FILLS:
            taken = counts >= max(1.0, (tau - 1e-9) * r * c)
            share = float(n_entries[taken].sum()) / sample.nnz
            if not MIN_SHARE <= share <= 1.0 - MIN_SHARE:
                continue
            n_tiles = float((n_entries[taken] / counts[taken]).sum()) / sample.nnz  # tiles per entry of the matrix
            blocks = n_tiles * costs.tile(Operator("block", r, c), 1)
            further = costs.further_row * pattern.n_rows / pattern.nnz
            ratio = (blocks + (1.0 - share) * csr + further) / csr
            found.append(Partition((Blocks(r, c, tau), REST), ("blocks", "rest"), ratio))
    kept: list[Partition] = []
    for one in sorted(found, key=lambda one: one.predicted_ratio):
        known = {(block.r, block.c) for kept_one in kept for block in kept_one.selections if isinstance(block, Blocks)}
        first = one.selections[0]
        if isinstance(first, Blocks) and (first.r, first.c) not in known and len(kept) < MAX_OF_A_KIND:
            kept.append(one)
    return kept
