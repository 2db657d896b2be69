"""Statistics of a pattern that predict which format suits it: ratios of integer counts, most of them from a sample.

The integers are row lengths, SELL cells, and blocks and diagonals of a sample of row panels. Panels are runs of
consecutive rows whose number every block height divides, so that blocks are counted exactly within them. The runtime
counts once per pattern; `runtime/statistics/counts.c` has the same sizes.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
from autosparse._native import counts as native
from numpy.typing import NDArray

from autosparse.core.dtypes import Flag, WideIndex
from autosparse.core.pattern import Pattern
from autosparse.core.values import dataclass

PANEL: Final = 16
"""Rows per panel in which shared cache lines of x, shared columns and diagonals are counted."""
BLOCK_SIZES: Final = (1, 2, 3, 4, 8, 16)
SLICE_LANES: Final = (4, 8, 16, 32)
WINDOWS: Final = (1, 512, 8192)
"""Rows per window that SELL sorts by length (sigma); 1: not sorted."""

Size = tuple[int, int]

_SLICES: Final = tuple((lanes, window) for window in WINDOWS for lanes in SLICE_LANES)
_BLOCKS: Final = tuple((r, c) for r in BLOCK_SIZES for c in BLOCK_SIZES)


@dataclass(frozen=True, slots=True, kw_only=True)
class LengthCounts:
    """Counts of row lengths of op(A). `slots[lanes, window]`: SELL slots of whole sampled slices, entries in them."""

    longest: int
    squares: int  # sum of squared lengths
    n_empty: int
    slots: Mapping[Size, tuple[int, int]]

    @classmethod
    def of(cls, found: Sequence[int]) -> LengthCounts:
        """Build the counts from the flat sequence of numbers that the runtime returns."""
        longest, squares, n_empty, *pairs = found
        slots = dict(zip(_SLICES, zip(pairs[::2], pairs[1::2], strict=True), strict=True))
        return cls(longest=longest, squares=squares, n_empty=n_empty, slots=slots)


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleCounts:
    """Gaps, diagonals, blocks of sampled entries. `n_blocks[r, c]`: r x c blocks that contain a sampled entry."""

    n_entries: int
    gap_sum: int  # sum of the column distances between neighbouring entries of a row
    n_gaps: int
    n_on_few: int  # entries in panels whose entries lie on few diagonals
    n_few_cells: int  # cells of those diagonals
    n_blocks: Mapping[Size, int]

    @classmethod
    def of(cls, found: Sequence[int]) -> SampleCounts:
        """Build the counts from the flat sequence of numbers that the runtime returns."""
        n_entries, gap_sum, n_gaps, n_on_few, n_few_cells, *blocks = found
        return cls(
            n_entries=n_entries, gap_sum=gap_sum, n_gaps=n_gaps, n_on_few=n_on_few, n_few_cells=n_few_cells,
            n_blocks=dict(zip(_BLOCKS, blocks, strict=True)),
        )  # fmt: skip


def counted(pattern: Pattern, n_sample: int, *, transposed: bool) -> tuple[LengthCounts, SampleCounts]:
    """Count all row lengths of op(A) and slices of some rows, and about `n_sample` entries in evenly spread panels.

    The sample is deterministic and cached with the pattern, for products of other widths and for learned models. Two
    threads may count the same pattern twice, without harm. Raises MemoryError.
    """
    key = ("counts", n_sample, transposed)
    found: tuple[LengthCounts, SampleCounts] | None = pattern.counts.get(key)
    if found is None:
        if transposed:
            lengths = LengthCounts.of(native.of_columns(pattern, len(_SLICES)))
            found = lengths, counted(pattern, n_sample, transposed=False)[1]
        else:
            of_lengths, of_sample = native.of_rows(pattern, len(_SLICES), n_sample, len(BLOCK_SIZES))
            found = LengthCounts.of(of_lengths), SampleCounts.of(of_sample)
        pattern.counts[key] = found
    return found


MAX_WINDOW: Final = 8192
"""Number of entries whose mirror image is looked up to guess symmetry before anything is packed."""
N_WINDOWS: Final = 4
"""Number of windows of consecutive entries in which the reuse of columns is sampled."""
MAX_MARKS: Final = 1 << 20
"""Maximum number of columns for which distinct ones are counted with a mark per column instead of by sorting."""
ORDERED_SAMPLE: Final = 4096
"""Approximate number of rows whose first columns are sorted."""
DEFAULT_SAMPLE: Final = 6144
"""Sampled entries: block fills are then accurate to a few percent at a cost that automatic tuning can afford."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PatternFacts:
    """Statistics of op(A). `n_blocks[r, c]` is the mean number of r x c blocks per stored entry, in 1/(r*c) .. 1.

    `slice_cells[lanes, sigma]` is the number of SELL cells per stored entry, 1 or more.
    """

    n_rows: int
    n_cols: int
    nnz: int
    mean_row: float  # stored entries per row
    max_row: int  # most stored entries in a row
    row_cv: float  # standard deviation of the row lengths over their mean
    empty_rows: float  # share of all rows
    mean_gap: float  # mean distance between neighbouring columns of a row
    n_blocks: Mapping[tuple[int, int], float]
    slice_cells: Mapping[tuple[int, int], float]
    diagonal_share: float  # share of the entries in panels whose entries lie on few diagonals
    diagonal_cells: float  # cells of those diagonals per entry on the diagonals

    def cells_per_entry(self, lanes: int, sigma: int) -> float:
        """Return SELL cells, padding included, per entry: slices of `lanes` rows, sorted in windows of `sigma` rows."""
        window = sigma if sigma in WINDOWS else min(WINDOWS, key=lambda window: abs(window - sigma))
        return self.slice_cells.get((lanes, window), float(lanes))

    def fill(self, r: int, c: int) -> float:
        """Return stored entries over cells when packed in r x c blocks, in (0, 1]; 1 means no padding."""
        per_entry = self.n_blocks.get((r, c))
        return min(1.0, 1.0 / (per_entry * r * c)) if per_entry else 1.0 / (r * c)

    @property
    def lines_per_entry(self) -> float:
        """Return the cache lines of the vector x read by PANEL rows, per stored entry; small if rows share lines."""
        return self.n_blocks.get((PANEL, PANEL), 1.0)

    @property
    def columns_per_entry(self) -> float:
        """Return the distinct columns of a panel of rows per stored entry: 1/PANEL when its rows share all columns."""
        return self.n_blocks.get((PANEL, 1), 1.0)


class Locality:
    """Estimator of how soon consecutive rows of op(A) reuse the same columns."""

    def __init__(self, pattern: Pattern) -> None:
        self._pattern = pattern
        self._shares: dict[int, float] = {}

    def distinct_share(self, n_entries: int) -> float:
        """Return distinct columns over entries in a window of `n_entries` consecutive entries, averaged over windows.

        1 means that no column is reused. The result estimates the share of rows of B that a cache of `n_entries` rows
        must fetch. The cost is O(n_entries).
        """
        if self._pattern.nnz == 0:
            return 0.0
        n_entries = max(1, min(n_entries, self._pattern.nnz, MAX_WINDOW))
        if n_entries not in self._shares:
            n_found, n_windows = native.distinct(self._pattern, n_entries, N_WINDOWS)
            self._shares[n_entries] = n_found / n_windows / n_entries
        return self._shares[n_entries]


def shares_in_order(pattern: Pattern, sizes: Sequence[int]) -> list[float]:
    """Return `Locality.distinct_share` for windows of each of `sizes`, as if rows were sorted by first column.

    The cost is O(nnz) for the first columns, and O(rows) for the rows of a few windows. The sorted order itself is
    not built.
    """
    filled = np.flatnonzero(pattern.indptr[1:] > pattern.indptr[:-1])
    if filled.size == 0:
        return [1.0] * len(sizes)
    first = np.minimum.reduceat(pattern.indices[: pattern.nnz], pattern.indptr[filled])
    largest = max(1, min(max(sizes), pattern.nnz, MAX_WINDOW))
    n_rows = min(filled.size, -(-largest * filled.size // pattern.nnz))
    step = max(1, filled.size // ORDERED_SAMPLE)
    sampled = np.sort(first[::step])
    n_sampled = min(sampled.size, n_rows // step + 2)
    found = []
    for at in np.linspace(0, sampled.size - n_sampled, N_WINDOWS).astype(WideIndex).tolist():
        inside = np.flatnonzero((first >= sampled[at]) & (first <= sampled[at + n_sampled - 1]))
        rows = filled[inside[np.argsort(first[inside], kind="stable")][:n_rows]]
        starts = pattern.indptr[rows]
        lengths = pattern.indptr[rows + 1] - starts
        before = np.cumsum(lengths) - lengths
        columns = pattern.indices[np.arange(lengths.sum()) + np.repeat(starts - before, lengths)]
        windows = (columns[: max(1, min(size, largest))] for size in sizes)
        found.append([_n_distinct(window, pattern.n_cols) / window.size for window in windows])
    return [float(share) for share in np.mean(found, axis=0)]


def shares_of_walks(pattern: Pattern, sizes: Sequence[int]) -> list[float]:
    """Return `Locality.distinct_share` for windows of `sizes` (ascending), as if rows were in Cuthill-McKee order."""
    found = native.walks(pattern, [min(size, MAX_WINDOW) for size in sizes], N_WINDOWS)
    return [n_columns / n_entries if n_entries else 1.0 for n_columns, n_entries in found]


def _n_distinct(columns: NDArray[Any], n_cols: int) -> int:
    """Return the number of distinct columns, all below n_cols."""
    if n_cols > MAX_MARKS:
        return int(np.unique(columns).size)
    marks = np.zeros(n_cols, Flag)
    marks[columns] = True
    return int(np.count_nonzero(marks))


def pattern_facts(pattern: Pattern, *, transposed: bool = False, n_sample: int = DEFAULT_SAMPLE) -> PatternFacts:
    """Return the facts of op(A); O(n_rows) for row lengths, O(n_sample) for the rest. The sample is deterministic."""
    lengths, sample = counted(pattern, n_sample, transposed=transposed)
    n_rows, n_cols = (pattern.n_cols, pattern.n_rows) if transposed else pattern.shape
    n_entries, n_on_few = sample.n_entries, sample.n_on_few
    return PatternFacts(
        n_rows=n_rows,
        n_cols=n_cols,
        nnz=pattern.nnz,
        mean_row=pattern.nnz / max(1, n_rows),
        max_row=lengths.longest,
        row_cv=_variation(lengths, n_rows, pattern.nnz),
        empty_rows=lengths.n_empty / max(1, n_rows),
        mean_gap=sample.gap_sum / sample.n_gaps if sample.n_gaps else 0.0,
        n_blocks={
            (r, c): sample.n_blocks[(c, r) if transposed else (r, c)] / n_entries if n_entries else 1.0
            for r, c in sample.n_blocks
        },
        slice_cells={
            (lanes, window): n_slots * lanes / n_inside if n_inside else 1.0
            for (lanes, window), (n_slots, n_inside) in lengths.slots.items()
        },
        diagonal_share=n_on_few / n_entries if n_entries else 0.0,
        diagonal_cells=sample.n_few_cells / n_on_few if n_on_few else 1.0,
    )


def _variation(lengths: LengthCounts, n_rows: int, nnz: int) -> float:
    """Return the standard deviation over the mean of the row lengths, from exact integer sums."""
    return math.sqrt(max(0, n_rows * lengths.squares - nnz * nnz)) / nnz if nnz else 0.0
