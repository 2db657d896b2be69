"""Facts of a pattern that predict which format suits it, from a sample of row panels: far below the cost of a product.

Runs of SAMPLE_ROWS consecutive rows are looked at, starting at a multiple of SAMPLE_ROWS, so that every block height
that divides it is counted exactly within them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from autosparse.pattern import Pattern

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
MAX_DIAGONAL_CELLS: Final = 1.5
"""Cells per entry up to which a slice lists its diagonals (what packing does)."""
MAX_WINDOW: Final = 8192
N_LOOKED_AT: Final = 256
"""Entries whose mirror image is looked for before anything is packed."""
N_WINDOWS: Final = 4
"""Windows of entries looked at for columns that come back, and the most entries of one."""
DEFAULT_SAMPLE: Final = 6144
"""Entries looked at: enough for block fills within a few percent, cheap enough (about 1 ms) for unasked tuning."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PatternFacts:
    """Statistics of op(A). `n_blocks[r, c]` is the mean number of r x c blocks per stored entry, in 1/(r*c) .. 1.

    `slice_cells[lanes, sigma]` is the number of cells of a sliced format per stored entry, 1 or more.
    """

    n_rows: int
    n_cols: int
    nnz: int
    mean_row: float  # stored entries per row
    max_row: int  # most stored entries in a row
    row_cv: float  # standard deviation of the row lengths over their mean
    empty_rows: float  # share
    mean_gap: float  # mean distance between neighbouring columns of a row
    n_blocks: Mapping[tuple[int, int], float]
    slice_cells: Mapping[tuple[int, int], float]
    diagonal_share: float  # of the entries, in panels that lie on few diagonals
    diagonal_cells: float  # cells of those diagonals per entry on them

    def cells_per_entry(self, lanes: int, sigma: int) -> float:
        """Cells over stored entries when `lanes` rows share slots after sorting windows of `sigma` rows by length."""
        return self.slice_cells.get((lanes, min(WINDOWS, key=lambda window: abs(window - sigma))), float(lanes))

    def fill(self, r: int, c: int) -> float:
        """Stored entries over cells when packed in r x c blocks, in (0, 1]; 1 means no padding."""
        per_entry = self.n_blocks.get((r, c))
        return min(1.0, 1.0 / (per_entry * r * c)) if per_entry else 1.0 / (r * c)

    @property
    def lines_per_entry(self) -> float:
        """Cache lines of a vector x that a panel of rows touches, per stored entry (small: neighbours share lines)."""
        return self.n_blocks.get((PANEL, PANEL), 1.0)

    @property
    def columns_per_entry(self) -> float:
        """Distinct columns of a panel of rows per stored entry: 1/PANEL when rows share all their columns."""
        return self.n_blocks.get((PANEL, 1), 1.0)


class BlockCounts(Mapping[tuple[int, int], float]):
    """Blocks per entry of op(A) by (rows, columns), sizes of BLOCK_SIZES; each is counted when it is first asked for.

    A sort per size is what facts cost most, and a ranking of first candidates asks for half of the sizes.
    """

    def __init__(self, rows: NDArray[np.int64], cols: NDArray[np.int64], *, transposed: bool) -> None:
        narrow = _narrow(rows, cols)
        self._rows, self._cols = narrow[::-1] if transposed else narrow
        self._counts: dict[tuple[int, int], float] = {}

    def __getitem__(self, size: tuple[int, int]) -> float:
        found = self._counts.get(size)
        if found is None:
            if size[0] not in BLOCK_SIZES or size[1] not in BLOCK_SIZES:
                raise KeyError(size)
            found = self._counts[size] = _n_blocks(self._rows, self._cols, *size)
        return found

    def __iter__(self) -> Iterator[tuple[int, int]]:
        yield from ((r, c) for r in BLOCK_SIZES for c in BLOCK_SIZES)

    def __len__(self) -> int:
        return len(BLOCK_SIZES) ** 2


class Locality:
    """How soon rows of op(A) that follow each other name the same columns again."""

    def __init__(self, pattern: Pattern) -> None:
        self._pattern = pattern
        self._shares: dict[int, float] = {}

    def distinct_share(self, n_entries: int) -> float:
        """Distinct columns over entries among `n_entries` that follow each other; mean over a few windows.

        1 means that no column comes back; what a cache that holds `n_entries` rows of B must fetch. O(n_entries log).
        """
        n_entries = max(1, min(n_entries, self._pattern.nnz, MAX_WINDOW))
        if n_entries not in self._shares:
            last = self._pattern.nnz - n_entries
            starts = np.unique(np.linspace(0, last, N_WINDOWS).astype(np.int64))
            columns = self._pattern.indices
            found = [np.unique(columns[start : start + n_entries]).size for start in starts.tolist()]
            self._shares[n_entries] = float(np.mean(found)) / n_entries
        return self._shares[n_entries]


def seems_symmetric(pattern: Pattern) -> bool:
    """Whether some entries, and the lengths of all rows, speak for a symmetric pattern: no proof. O(row lengths)."""
    n, nnz = pattern.n_rows, pattern.nnz
    if n != pattern.n_cols or nnz == 0:
        return False
    entries = np.unique(np.linspace(0, nnz - 1, N_LOOKED_AT).astype(np.int64))
    rows = np.searchsorted(pattern.indptr, entries, side="right") - 1
    columns = pattern.indices[entries].astype(np.int64)
    return all(
        bool(np.any(pattern.indices[pattern.indptr[k] : pattern.indptr[k + 1]] == i))
        for i, k in zip(rows.tolist(), columns.tolist(), strict=True)
    )


def pattern_facts(pattern: Pattern, *, transposed: bool = False, n_sample: int = DEFAULT_SAMPLE) -> PatternFacts:
    """Facts of op(A); O(n_rows) for the row lengths, O(n_sample log n_sample) for the rest. Same sample every time."""
    lengths = _row_lengths(pattern, transposed=transposed)
    mean = pattern.nnz / max(1, lengths.size)
    rows, cols, gaps = _sampled_entries(pattern, n_sample)
    n_rows, n_cols = (pattern.n_cols, pattern.n_rows) if transposed else pattern.shape
    diagonal_share, diagonal_cells = _diagonals(rows, cols)
    return PatternFacts(
        n_rows=n_rows,
        n_cols=n_cols,
        nnz=pattern.nnz,
        mean_row=pattern.nnz / max(1, n_rows),
        max_row=int(lengths.max(initial=0)),
        row_cv=float(lengths.std() / mean) if mean > 0 else 0.0,
        empty_rows=float(np.count_nonzero(lengths == 0) / max(1, lengths.size)),
        mean_gap=float(gaps.mean()) if gaps.size else 0.0,
        n_blocks=BlockCounts(rows, cols, transposed=transposed),
        slice_cells=_slice_cells(lengths),
        diagonal_share=diagonal_share,
        diagonal_cells=diagonal_cells,
    )


def _row_lengths(pattern: Pattern, *, transposed: bool) -> NDArray[np.int64]:
    """Stored entries of each row of op(A)."""
    if transposed:
        return np.bincount(pattern.indices[: pattern.nnz], minlength=pattern.n_cols)
    return np.diff(pattern.indptr).astype(np.int64, copy=False)


def _slice_cells(lengths: NDArray[np.int64]) -> dict[tuple[int, int], float]:
    """Cells per entry when each slice is as long as its longest row, by (lanes, window); from a sample of the rows."""
    found = {}
    for window in WINDOWS:
        ordered = _ordered(lengths, window)
        for lanes in SLICE_LANES:
            n_whole = ordered.size // lanes * lanes
            longest = ordered[:n_whole].reshape(-1, lanes).max(axis=1, initial=0)
            n_entries = int(ordered[:n_whole].sum())
            found[lanes, window] = float(longest.sum() * lanes / n_entries) if n_entries else 1.0
    return found


def _ordered(lengths: NDArray[np.int64], window: int) -> NDArray[np.int64]:
    """Row lengths in the order of a sliced format, of windows evenly spread over the rows."""
    if window == 1:
        return lengths[:MAX_SAMPLED_ROWS]
    n_windows = lengths.size // window
    if n_windows == 0:
        return np.sort(lengths)[::-1]
    n_sampled = min(n_windows, max(1, MAX_SAMPLED_ROWS // window))
    starts = np.unique(np.linspace(0, n_windows - 1, n_sampled).astype(np.int64)) * window
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
    n_panels = int(min(n_panels_all, max(8, n_sample / per_panel)))
    panels = np.unique(np.linspace(0, n_panels_all - 1, n_panels).astype(np.int64))
    rows, cols, gaps = [], [], []
    # A panel with a giant row is cut: what the first thousands of its entries look like is what the rest looks like.
    limit = max(256, 2 * n_sample // n_panels)
    for panel in panels.tolist():
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


def _diagonals(rows: NDArray[np.int64], cols: NDArray[np.int64]) -> tuple[float, float]:
    """Share of the entries in panels of few diagonals, and the cells of these per entry. A^T has those of A."""
    if rows.size == 0:
        return 0.0, 1.0
    panels, firsts = np.divmod(rows, PANEL)  # panels never fall: rows are in order
    keys = panels << 32 | (cols - firsts + PANEL)
    keys.sort()
    distinct = keys[np.concatenate(([True], keys[1:] != keys[:-1]))] >> 32
    begins = np.concatenate(([0], np.flatnonzero(panels[1:] != panels[:-1]) + 1, [rows.size]))
    n_entries = np.diff(begins)
    n_cells = np.diff(np.searchsorted(distinct, [*panels[begins[:-1]], panels[-1] + 1])) * PANEL
    is_few = n_cells <= MAX_DIAGONAL_CELLS * n_entries
    on_few = int(n_entries[is_few].sum())
    return on_few / rows.size, float(n_cells[is_few].sum() / on_few) if on_few else 1.0


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


def _n_blocks(rows: NDArray[Any], cols: NDArray[Any], r: int, c: int) -> float:
    """Distinct (row // r, col // c) per entry."""
    if rows.size == 0:
        return 1.0
    of_columns = cols // c
    keys = rows // r * (of_columns.max() + 1) + of_columns
    keys.sort()
    return float(1 + np.count_nonzero(keys[1:] != keys[:-1])) / rows.size
