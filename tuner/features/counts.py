"""Integer counts behind the statistics of a pattern: row lengths, SELL cells, and a sample of row panels.

Panels are runs of consecutive rows whose number every block height divides, so that blocks are counted exactly within
them. The runtime counts once per pattern; `runtime/statistics/counts.c` has the same sizes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from autosparse._native import counts as native

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
