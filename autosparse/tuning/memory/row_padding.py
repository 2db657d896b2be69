"""Padding of rows in slices and blocks, by which the early race chooses; it loads nothing that only tuning needs."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from autosparse._native import runtime_api
from autosparse._native.kernels.slice_names import HIGH_SLICE
from autosparse.dispatch import number

MAX_PADDING: Final = number("early race", "maximum padding")
"""Maximum ratio of stored cells to entries at which slices are a candidate."""
PLAIN_PADDING: Final = number("early race", "padding without sorting")
"""Maximum ratio of stored cells to entries at which rows stay in their order."""
WIDE_PADDING: Final = number("early race", "maximum padding of wide windows")
"""Maximum ratio of stored cells to entries at which slices of rows sorted in WIDE_WINDOW are a candidate."""
WINDOW: Final = 512
"""Number of rows within which rows are sorted by length (`sigma` of the shipped kernels)."""
WIDE_WINDOW: Final = 8192
"""The same for rows of very different lengths, as in graphs with a power law."""
HIGH_FROM_ROWS: Final = 1 << 10
"""Minimum number of rows for slices of HIGH_SLICE rows: fewer leave too few slices for several threads.

They took 1.0 to 1.4 times the time of vector-high slices on six of seven matrices of 24 to 588 rows (Zen 4).
"""
SAMPLED_ROWS: Final = 1 << 14
"""Maximum number of rows from which padding is estimated, in whole windows."""
IN_BLOCKS: Final = 0  # value of sigma that stands for blocks of rows as high as a vector
BLOCK_BITS: Final = 16  # of the columns of these blocks
MAX_FILL: Final = {rows: number("early race", f"maximum fill of {rows} rows") for rows in (4, 8, 16)}
"""Maximum ratio of stored cells to entries at which blocks are a candidate, by their rows."""
STREAMED_FILL: Final = number("early race", "maximum fill beyond caches")
"""The same for blocks of more than CACHED_BYTES."""
CACHED_BYTES: Final = 8 << 20
FILL_WINDOWS: Final = (6, 96)  # maximum number of windows from which the fill is estimated, and their rows: 0.1 ms


def padding(indptr: Any, rows: int, window: int = 1) -> float:
    """Return stored cells over entries in slices of `rows` rows, sorted in windows of `window` rows (1: not sorted).

    It is estimated from at most SAMPLED_ROWS rows.
    """
    windows = _windows(indptr, max(window, WINDOW))
    return _padding(np.sort(windows, axis=1) if window > 1 and windows is not None else windows, rows)


def _windows(indptr: Any, size: int) -> Any:
    """Return the lengths of rows in a sample of windows of `size` rows; None if there is no whole window."""
    n_windows = (len(indptr) - 1) // size
    if not n_windows:
        return None
    begins = np.arange(0, n_windows, -(-n_windows * size // SAMPLED_ROWS)) * size
    return np.diff(indptr[begins[:, None] + np.arange(size + 1)], axis=1)


def _padding(windows: Any, rows: int) -> float:
    if windows is None:
        return 1.0
    n_entries = int(windows.sum())
    return float(windows.reshape(-1, rows).max(axis=1).sum()) * rows / n_entries if n_entries else np.inf


def fits_blocks(rows: tuple[Any, ...], n_columns: int, value_bytes: int, lanes: int) -> bool:
    """Return whether `rows`, (indptr, indices, ...), share so many columns that blocks of `lanes` rows are fast."""
    indptr, indices = rows[:2]
    if n_columns > 1 << BLOCK_BITS or not indices.flags.c_contiguous:
        return False
    (n_windows, size), n_rows, n_entries, n_blocks = FILL_WINDOWS, indptr.size - 1, 0, 0
    code, pointer, null = runtime_api.INDEX_CODES[indptr.dtype.name], runtime_api.pointer, runtime_api.ffi.NULL
    for begin in range(0, n_rows, max(1, -(-n_rows // (n_windows * size))) * size):
        window = indptr[begin : begin + size + 1]
        head = code, window.size - 1, n_columns, pointer(window), pointer(indices)
        n_blocks += max(0, runtime_api.lib.asp_count_blocks(*head, lanes, 1, null, 1))
        n_entries += int(window[-1] - window[0])
    fill = lanes * n_blocks / max(1, n_entries)
    is_cached = fill * int(indptr[-1]) * value_bytes <= CACHED_BYTES
    return 0.0 < fill <= (MAX_FILL.get(lanes, 0.0) if is_cached else STREAMED_FILL)


def fits_high(indptr: Any) -> bool:
    """Return whether slices of HIGH_SLICE rows in order have little padding, and threads enough of them."""
    return len(indptr) > HIGH_FROM_ROWS and padding(indptr, HIGH_SLICE) <= PLAIN_PADDING


def slices(indptr: Any, lanes: int) -> tuple[int, int] | None:
    """Return rows of a slice, a multiple of `lanes`, and sigma (1: not sorted) with little padding; None if none have.

    Both are those of a shipped kernel.
    """
    windows = _windows(indptr, WINDOW)
    if _padding(windows, lanes) <= PLAIN_PADDING:
        return lanes, 1
    windows.sort(axis=1)
    for rows in (2 * lanes, lanes):
        if _padding(windows, rows) <= MAX_PADDING:
            return rows, WINDOW
    # In a single window, the longest rows are neighbours in the result and no others balance them.
    is_wide = len(indptr) - 1 > WIDE_WINDOW and padding(indptr, lanes, WIDE_WINDOW) <= WIDE_PADDING
    return (lanes, WIDE_WINDOW) if is_wide else None
