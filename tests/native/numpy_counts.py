"""Reference in NumPy and Python sets for the counts that the runtime takes in patterns."""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Sequence

import numpy as np
from autosparse.tuner.features.statistics import BLOCK_SIZES, PANEL, SLICE_LANES, WINDOWS, LengthCounts, SampleCounts

from autosparse.core.pattern import Pattern

SAMPLE_ROWS = 48
"""Number of consecutive rows sampled together: a multiple of PANEL and of every block height."""
MAX_SAMPLED_ROWS = 16384
"""Maximum number of rows sampled for the cells of slices."""
MIN_PANELS = 8
MIN_OF_PANEL = 256
"""Lower bound of the limit on the number of entries that are examined per panel."""
MAX_DIAGONAL_CELLS = 1.5
"""Maximum cells per entry for which a slice stores its diagonals; packing uses the same limit."""


def spread_evenly(n: int, last: int) -> np.ndarray:
    """Return `n` integers spread evenly over 0 .. last, both included."""
    return np.arange(n, dtype=np.int64) * last // max(1, n - 1)


def lengths(pattern: Pattern, *, transposed: bool) -> LengthCounts:
    found = np.diff(pattern.indptr).astype(np.int64, copy=False)
    if transposed:
        found = np.bincount(pattern.indices[: pattern.nnz], minlength=pattern.n_cols)
    return LengthCounts(
        longest=int(found.max(initial=0)),
        squares=int((found * found).sum()),
        n_empty=int(np.count_nonzero(found == 0)),
        slots=_slots(found),
    )


def sample(pattern: Pattern, n_sample: int) -> SampleCounts:
    rows, cols, gaps = _sampled_entries(pattern, n_sample)
    n_on_few, n_few_cells = _diagonals(rows, cols)
    return SampleCounts(
        n_entries=rows.size,
        gap_sum=int(gaps.sum()),
        n_gaps=gaps.size,
        n_on_few=n_on_few,
        n_few_cells=n_few_cells,
        n_blocks={(r, c): _n_blocks(rows, cols, r, c) for r in BLOCK_SIZES for c in BLOCK_SIZES},
    )


def distinct(pattern: Pattern, n_entries: int, n_windows: int) -> tuple[int, int]:
    starts = np.unique(spread_evenly(n_windows, pattern.nnz - n_entries)).tolist()
    found = [np.unique(pattern.indices[start : start + n_entries]).size for start in starts]
    return sum(found), len(found)


def walks(pattern: Pattern, sizes: Sequence[int], n_walks: int) -> list[tuple[int, int]]:
    starts = [(w + 1) * (pattern.n_rows - 1) // (n_walks + 1) for w in range(n_walks if pattern.n_rows else 0)]
    walked = [_walked(pattern, start, sizes[-1]) for start in starts]
    return [
        (sum(len(set(columns[:size])) for columns in walked), sum(len(columns[:size]) for columns in walked))
        for size in sizes
    ]


def _walked(pattern: Pattern, start: int, n_entries: int) -> list[int]:
    """Return the columns of the first `n_entries` entries that a walk from row `start` reads."""
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


def _slots(found: np.ndarray) -> dict[tuple[int, int], tuple[int, int]]:
    """Return slots of slices and their entries in a sample of rows, by (lanes, window).

    Each slice has as many slots per lane as its longest row has entries.
    """
    slots = {}
    for window in WINDOWS:
        ordered = _ordered(found, window)
        for lanes in SLICE_LANES:
            n_whole = ordered.size // lanes * lanes
            longest = ordered[:n_whole].reshape(-1, lanes).max(axis=1, initial=0)
            slots[lanes, window] = int(longest.sum()), int(ordered[:n_whole].sum())
    return slots


def _ordered(found: np.ndarray, window: int) -> np.ndarray:
    """Return row lengths in the order of a sliced format, for windows evenly spread over the rows."""
    if window == 1:
        return found[:MAX_SAMPLED_ROWS]
    n_windows = found.size // window
    if n_windows == 0:
        return np.sort(found)[::-1]
    n_sampled = min(n_windows, max(1, MAX_SAMPLED_ROWS // window))
    starts = spread_evenly(n_sampled, n_windows - 1) * window
    return -np.sort(-found[starts[:, None] + np.arange(window)], axis=1).ravel()


def _sampled_entries(pattern: Pattern, n_sample: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return rows, columns and column gaps of about `n_sample` entries, in panels spread evenly over the matrix."""
    n_panels_all = -(-pattern.n_rows // SAMPLE_ROWS)
    if pattern.nnz == 0 or n_panels_all == 0:
        return (np.zeros(0, np.int64),) * 3
    per_panel = max(1.0, pattern.nnz / n_panels_all)
    n_panels = int(min(n_panels_all, max(MIN_PANELS, n_sample / per_panel)))
    limit = max(MIN_OF_PANEL, 2 * n_sample // n_panels)
    rows, cols, gaps = [], [], []
    for panel in spread_evenly(n_panels, n_panels_all - 1).tolist():
        low, high = panel * SAMPLE_ROWS, min((panel + 1) * SAMPLE_ROWS, pattern.n_rows)
        ends = np.asarray(pattern.indptr[low : high + 1], dtype=np.int64)
        start, stop = int(ends[0]), int(min(ends[-1], ends[0] + limit))
        columns = np.asarray(pattern.indices[start:stop], dtype=np.int64)
        owners = np.searchsorted(ends, np.arange(start, stop), side="right") - 1 + low
        rows.append(owners)
        cols.append(columns)
        gaps.append(np.abs(np.diff(columns))[owners[1:] == owners[:-1]])
    return np.concatenate(rows), np.concatenate(cols), np.concatenate(gaps)


def _diagonals(rows: np.ndarray, cols: np.ndarray) -> tuple[int, int]:
    """Return the number of entries in panels of few diagonals, and the number of cells of these panels."""
    n_on_few = n_few_cells = 0
    for panel in np.unique(rows // PANEL).tolist():
        mine = rows // PANEL == panel
        n_cells = PANEL * np.unique(cols[mine] - rows[mine]).size
        if n_cells <= MAX_DIAGONAL_CELLS * np.count_nonzero(mine):
            n_on_few, n_few_cells = n_on_few + int(np.count_nonzero(mine)), n_few_cells + n_cells
    return n_on_few, n_few_cells


def _n_blocks(rows: np.ndarray, cols: np.ndarray, r: int, c: int) -> int:
    """Return the number of distinct pairs (row // r, col // c)."""
    return np.unique(np.stack([rows // r, cols // c]), axis=1).shape[1]
