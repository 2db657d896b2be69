"""Whole numbers that facts of a pattern are made of: row lengths, cells of slices, and a sample of row panels.

Counted here by NumPy; the runtime counts the same numbers (`autosparse._native.counts`), and whoever has it passes it
in. Runs of SAMPLE_ROWS consecutive rows are looked at, starting at a multiple of SAMPLE_ROWS, so that every block
height that divides it is counted exactly within them.
"""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

import numpy as np
from numpy.typing import NDArray

from autosparse.core.pattern import Pattern

PANEL: Final = 16
"""Rows that count as neighbours where lines of x, shared columns and diagonals are counted."""
SAMPLE_ROWS: Final = 48
"""Rows sampled together: a multiple of PANEL and of every block height."""
BLOCK_SIZES: Final = (1, 2, 3, 4, 8, 16)
SLICE_LANES: Final = (4, 8, 16, 32)
WINDOWS: Final = (1, 512, 8192)
"""Rows per window that a sliced format sorts by length; 1: not sorted."""
MAX_SAMPLED_ROWS: Final = 16384
"""Rows looked at for the cells of slices."""
LEAST_PANELS: Final = 8
LEAST_OF_PANEL: Final = 256
"""Entries of a panel that are looked at in any case."""
MAX_DIAGONAL_CELLS: Final = 1.5
"""Cells per entry up to which a slice lists its diagonals (what packing does)."""

Size = tuple[int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class LengthCounts:
    """Of the rows of op(A). `slots[lanes, window]`: slots of all whole slices looked at, and entries in them."""

    longest: int
    squares: int  # sum of squared lengths
    n_empty: int
    slots: Mapping[Size, tuple[int, int]]


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleCounts:
    """Of sampled entries of A. `n_blocks[r, c]`: distinct blocks of r rows and c columns that they lie in."""

    n_entries: int
    gap_sum: int  # between neighbouring entries of a row
    n_gaps: int
    n_on_few: int  # entries in panels that lie on few diagonals
    n_few_cells: int  # cells of those diagonals
    n_blocks: Mapping[Size, int]


class Counter(Protocol):
    """What counts in patterns."""

    def lengths(self, pattern: Pattern, *, transposed: bool) -> LengthCounts:
        """Of all row lengths, and of slices of up to MAX_SAMPLED_ROWS rows; of the columns when `transposed`."""

    def sample(self, pattern: Pattern, n_sample: int) -> SampleCounts:
        """Of about `n_sample` entries in evenly spread panels; the same ones every time."""

    def both(self, pattern: Pattern, n_sample: int, *, transposed: bool) -> tuple[LengthCounts, SampleCounts]:
        """`lengths` and `sample`."""

    def distinct(self, pattern: Pattern, n_entries: int, n_windows: int) -> tuple[int, int]:
        """Sum of the distinct columns in evenly spread windows of `n_entries` entries, and number of the windows."""

    def walks(self, pattern: Pattern, sizes: Sequence[int], n_walks: int) -> list[tuple[int, int]]:
        """Distinct columns among the first `size` entries of breadth-first walks, and entries, for each of `sizes`.

        `n_walks` walks over rows from evenly spread ones, column k of row i leading to row k; where a walk can go no
        further it goes on with the next row not met. Sizes ascend; sums over the walks.
        """


def spread_evenly(n: int, last: int) -> NDArray[np.int64]:
    """`n` numbers over 0 .. last, both included, in whole steps as even as can be."""
    return np.arange(n, dtype=np.int64) * last // max(1, n - 1)


@dataclass(frozen=True, slots=True)
class NumpyCounter:
    """Counts by sorting: without a runtime, and what the runtime's counts are compared with."""

    def lengths(self, pattern: Pattern, *, transposed: bool) -> LengthCounts:
        """See `Counter`."""
        lengths = np.diff(pattern.indptr).astype(np.int64, copy=False)
        if transposed:
            lengths = np.bincount(pattern.indices[: pattern.nnz], minlength=pattern.n_cols)
        return LengthCounts(
            longest=int(lengths.max(initial=0)),
            squares=int((lengths * lengths).sum()),
            n_empty=int(np.count_nonzero(lengths == 0)),
            slots=_slots(lengths),
        )

    def sample(self, pattern: Pattern, n_sample: int) -> SampleCounts:
        """See `Counter`; a block size is counted when it is first asked for: a sort each is what this costs most."""
        rows, cols, gaps = _sampled_entries(pattern, n_sample)
        n_on_few, n_few_cells = _diagonals(rows, cols)
        return SampleCounts(
            n_entries=rows.size,
            gap_sum=int(gaps.sum()),
            n_gaps=gaps.size,
            n_on_few=n_on_few,
            n_few_cells=n_few_cells,
            n_blocks=_BlockCounts(rows, cols),
        )

    def both(self, pattern: Pattern, n_sample: int, *, transposed: bool) -> tuple[LengthCounts, SampleCounts]:
        """See `Counter`."""
        return self.lengths(pattern, transposed=transposed), self.sample(pattern, n_sample)

    def distinct(self, pattern: Pattern, n_entries: int, n_windows: int) -> tuple[int, int]:
        """See `Counter`."""
        starts = np.unique(spread_evenly(n_windows, pattern.nnz - n_entries)).tolist()
        found = [np.unique(pattern.indices[start : start + n_entries]).size for start in starts]
        return sum(found), len(found)

    def walks(self, pattern: Pattern, sizes: Sequence[int], n_walks: int) -> list[tuple[int, int]]:
        """See `Counter`."""
        starts = [(w + 1) * (pattern.n_rows - 1) // (n_walks + 1) for w in range(n_walks if pattern.n_rows else 0)]
        walked = [_walked(pattern, start, sizes[-1]) for start in starts]
        return [
            (sum(len(set(columns[:size])) for columns in walked), sum(len(columns[:size]) for columns in walked))
            for size in sizes
        ]


def _walked(pattern: Pattern, start: int, n_entries: int) -> list[int]:
    """Columns of the first entries that a walk from row `start` reads."""
    columns: list[int] = []
    met: set[int] = set()
    waiting: deque[int] = deque()
    for first in itertools.chain(range(start, pattern.n_rows), range(start)):
        if first not in met:
            met.add(first)
            waiting.append(first)
        while waiting:
            row = waiting.popleft()
            read = pattern.indices[pattern.indptr[row] : pattern.indptr[row + 1]].tolist()
            columns += read
            if len(columns) >= n_entries:
                return columns[:n_entries]
            new = [column for column in dict.fromkeys(read) if column < pattern.n_rows and column not in met]
            met.update(new)
            waiting.extend(new)
    return columns


NUMPY: Final = NumpyCounter()


class _BlockCounts(Mapping[Size, int]):
    """Blocks by (rows, columns), sizes of BLOCK_SIZES; each is counted when it is first asked for."""

    def __init__(self, rows: NDArray[np.int64], cols: NDArray[np.int64]) -> None:
        self._rows, self._cols = _narrow(rows, cols)
        self._counts: dict[Size, int] = {}

    def __getitem__(self, size: Size) -> int:
        found = self._counts.get(size)
        if found is None:
            if size[0] not in BLOCK_SIZES or size[1] not in BLOCK_SIZES:
                raise KeyError(size)
            found = self._counts[size] = _n_blocks(self._rows, self._cols, *size)
        return found

    def __iter__(self) -> Iterator[Size]:
        yield from ((r, c) for r in BLOCK_SIZES for c in BLOCK_SIZES)

    def __len__(self) -> int:
        return len(BLOCK_SIZES) ** 2


def _slots(lengths: NDArray[np.int64]) -> dict[Size, tuple[int, int]]:
    """Slots when each slice is as long as its longest row, and entries, by (lanes, window); of a sample of the rows."""
    found = {}
    for window in WINDOWS:
        ordered = _ordered(lengths, window)
        for lanes in SLICE_LANES:
            n_whole = ordered.size // lanes * lanes
            longest = ordered[:n_whole].reshape(-1, lanes).max(axis=1, initial=0)
            found[lanes, window] = int(longest.sum()), int(ordered[:n_whole].sum())
    return found


def _ordered(lengths: NDArray[np.int64], window: int) -> NDArray[np.int64]:
    """Row lengths in the order of a sliced format, of windows evenly spread over the rows."""
    if window == 1:
        return lengths[:MAX_SAMPLED_ROWS]
    n_windows = lengths.size // window
    if n_windows == 0:
        return np.sort(lengths)[::-1]
    n_sampled = min(n_windows, max(1, MAX_SAMPLED_ROWS // window))
    starts = spread_evenly(n_sampled, n_windows - 1) * window
    return np.asarray(-np.sort(-lengths[starts[:, None] + np.arange(window)], axis=1)).ravel()


def _sampled_entries(pattern: Pattern, n_sample: int) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Rows, columns and column gaps of the entries in panels spread evenly over the matrix, about `n_sample` of them.

    Evenly spread panels, not random ones: block structure usually varies smoothly, and the answer must not vary at all.
    """
    indptr: NDArray[Any] = pattern.indptr
    n_panels_all = -(-pattern.n_rows // SAMPLE_ROWS)
    if pattern.nnz == 0 or n_panels_all == 0:
        empty = np.zeros(0, np.int64)
        return empty, empty, empty
    per_panel = max(1.0, pattern.nnz / n_panels_all)
    n_panels = int(min(n_panels_all, max(LEAST_PANELS, n_sample / per_panel)))
    rows, cols, gaps = [], [], []
    # A panel with a giant row is cut: what the first thousands of its entries look like is what the rest looks like.
    limit = max(LEAST_OF_PANEL, 2 * n_sample // n_panels)
    for panel in spread_evenly(n_panels, n_panels_all - 1).tolist():
        low, high = panel * SAMPLE_ROWS, min((panel + 1) * SAMPLE_ROWS, pattern.n_rows)
        ends = np.asarray(indptr[low : high + 1], dtype=np.int64)
        start, stop = int(ends[0]), int(min(ends[-1], ends[0] + limit))
        columns = np.asarray(pattern.indices[start:stop], dtype=np.int64)
        owners = np.searchsorted(ends, np.arange(start, stop), side="right") - 1 + low
        rows.append(owners)
        cols.append(columns)
        same_row = owners[1:] == owners[:-1]
        gaps.append(np.abs(np.diff(columns))[same_row])
    return np.concatenate(rows), np.concatenate(cols), np.concatenate(gaps)


def _diagonals(rows: NDArray[np.int64], cols: NDArray[np.int64]) -> tuple[int, int]:
    """Entries in panels of few diagonals, and the cells of these. A^T has those of A."""
    if rows.size == 0:
        return 0, 0
    panels, firsts = np.divmod(rows, PANEL)  # panels never fall: rows are in order
    keys = panels << 32 | (cols - firsts + PANEL)
    keys.sort()
    distinct = keys[np.concatenate(([True], keys[1:] != keys[:-1]))] >> 32
    begins = np.concatenate(([0], np.flatnonzero(panels[1:] != panels[:-1]) + 1, [rows.size]))
    n_entries = np.diff(begins)
    n_cells = np.diff(np.searchsorted(distinct, [*panels[begins[:-1]], panels[-1] + 1])) * PANEL
    is_few = n_cells <= MAX_DIAGONAL_CELLS * n_entries
    return int(n_entries[is_few].sum()), int(n_cells[is_few].sum())


def _narrow(rows: NDArray[np.int64], cols: NDArray[np.int64]) -> tuple[NDArray[Any], NDArray[Any]]:
    """The same blocks in numbers of 32 bits where they suffice: those sort twice as fast.

    Sampled panels are moved together; rows are in order, and every block height divides SAMPLE_ROWS.
    """
    if rows.size == 0:
        return rows, cols
    panels, within = np.divmod(rows, SAMPLE_ROWS)
    moved = np.cumsum(np.concatenate(([0], panels[1:] != panels[:-1]))) * SAMPLE_ROWS + within
    is_small = (int(moved[-1]) + SAMPLE_ROWS) * (int(cols.max()) + 1) < 1 << 32
    return (moved.astype(np.uint32), cols.astype(np.uint32)) if is_small else (rows, cols)


def _n_blocks(rows: NDArray[Any], cols: NDArray[Any], r: int, c: int) -> int:
    """Distinct (row // r, col // c)."""
    if rows.size == 0:
        return 0
    of_columns = cols // c
    keys = rows // r * (of_columns.max() + 1) + of_columns
    keys.sort()
    return 1 + int(np.count_nonzero(keys[1:] != keys[:-1]))
