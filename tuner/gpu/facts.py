"""Counts of a pattern that determine the speed of its products on a GPU; the cost model needs nothing else."""

# mypy: allow-untyped-calls
from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import torch

from autosparse.scalar.tensors import wide_real

WINDOW_HEIGHTS: Final = (8, 16)
"""Heights of windows for which non-empty columns are counted."""
BLOCK_SIZES: Final = (16, 32)
"""Sides of the aligned blocks that are counted."""
MIN_ENTRIES: Final = (1, 2, 4)
"""Minimum numbers of entries of a window's column for which columns are counted."""
BUCKETS: Final = 32
"""Number of row-length classes, one for each power of 2."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TileCounts:
    """Numbers of the non-empty tiles of one shape: columns of windows (or blocks), and entries in them."""

    columns: int
    entries: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DevicePattern:
    """Counts of a CSR pattern; index k of `rows_by_length` and `entries_by_length` is 2^(k-1) < length <= 2^k."""

    n_rows: int
    n_cols: int
    nnz: int
    longest: int
    used_cols: int  # columns with entries
    rows_by_length: tuple[int, ...]
    entries_by_length: tuple[int, ...]
    windows: tuple[tuple[tuple[int, int], TileCounts], ...]  # (rows, least entries) -> columns with so many
    blocks: tuple[tuple[int, TileCounts], ...]  # side -> non-empty blocks

    def short(self, at_most: int) -> tuple[int, int]:
        """Return (rows, entries) of the non-empty rows with at most `at_most` entries, a power of 2."""
        last = at_most.bit_length()
        return sum(self.rows_by_length[:last]), sum(self.entries_by_length[:last])

    @property
    def used_rows(self) -> int:
        """Number of rows with entries."""
        return sum(self.rows_by_length)

    def window(self, rows: int, at_least: int) -> TileCounts:
        """Return the counts of window columns with `at_least` entries, for windows of `rows` rows.

        The nearest counted values are used.
        """
        known = dict(self.windows)
        least = max(one for one in MIN_ENTRIES if one <= at_least)
        return known[min(WINDOW_HEIGHTS, key=lambda height: abs(height - rows)), least]

    def block(self, side: int) -> TileCounts:
        """Return the counts of non-empty square blocks of the counted side nearest to `side`."""
        return dict(self.blocks)[min(BLOCK_SIZES, key=lambda size: abs(size - side))]


def facts_of(crow: torch.Tensor, col: torch.Tensor, n_cols: int) -> DevicePattern:
    """Count a pattern. Synchronises with the device for each number: for planning only, never in a product."""
    n_rows, nnz = crow.shape[0] - 1, col.shape[0]
    lengths = crow.long().diff()
    bucket = torch.ceil(torch.log2(lengths.clamp(min=1).to(wide_real))).long()
    has = lengths > 0
    rows_by = torch.bincount(bucket[has], minlength=BUCKETS)
    entries_by = torch.bincount(bucket[has], weights=lengths[has].to(wide_real), minlength=BUCKETS).long()
    rows = torch.repeat_interleave(torch.arange(n_rows, device=col.device), lengths)
    windows = [item for height in WINDOW_HEIGHTS for item in _windows(rows, col, n_cols, height)]
    blocks = [(side, _blocks(rows, col, n_cols, side)) for side in BLOCK_SIZES]
    return DevicePattern(
        n_rows=n_rows,
        n_cols=n_cols,
        nnz=nnz,
        longest=int(lengths.max()) if n_rows else 0,
        used_cols=int(torch.unique(col).shape[0]),
        rows_by_length=tuple(rows_by.tolist()),
        entries_by_length=tuple(entries_by.tolist()),
        windows=tuple(windows),
        blocks=tuple(blocks),
    )


def _windows(
    rows: torch.Tensor, col: torch.Tensor, n_cols: int, height: int
) -> list[tuple[tuple[int, int], TileCounts]]:  # fmt: skip
    counts = torch.unique((rows // height) * max(n_cols, 1) + col, return_counts=True)[1]
    kept = [(least, counts[counts >= least]) for least in MIN_ENTRIES]
    return [((height, least), TileCounts(columns=one.shape[0], entries=int(one.sum()))) for least, one in kept]


def _blocks(rows: torch.Tensor, col: torch.Tensor, n_cols: int, side: int) -> TileCounts:
    across = max(1, -(-n_cols // side))
    n = torch.unique((rows // side) * across + col // side).shape[0]
    return TileCounts(columns=n, entries=col.shape[0])
