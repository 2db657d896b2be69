"""Padding of rows in slices, by which the early race chooses its candidate; it loads nothing that only tuning needs."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

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
SAMPLED_ROWS: Final = 1 << 14
"""Maximum number of rows from which padding is estimated, in whole windows."""


def padding(indptr: Any, rows: int, window: int = 1) -> float:
    """Return stored cells over entries in slices of `rows` rows, sorted in windows of `window` rows (1: not sorted).

    It is estimated from at most SAMPLED_ROWS rows.
    """
    return _padding(_windows(indptr, window), rows)


def _windows(indptr: Any, window: int) -> Any:
    """Return a sample of the lengths in windows of rows that are sorted; None if there is no whole window."""
    size = max(window, WINDOW)
    n_windows = (len(indptr) - 1) // size
    if not n_windows:
        return None
    begins = np.arange(0, n_windows, -(-n_windows * size // SAMPLED_ROWS)) * size
    windows = np.diff(indptr[begins[:, None] + np.arange(size + 1)], axis=1)
    return np.sort(windows, axis=1) if window > 1 else windows


def _padding(windows: Any, rows: int) -> float:
    if windows is None:
        return 1.0
    n_entries = int(windows.sum())
    return float(windows.reshape(-1, rows).max(axis=1).sum()) * rows / n_entries if n_entries else np.inf


def slices(indptr: Any, lanes: int) -> tuple[int, int] | None:
    """Return rows of a slice, a multiple of `lanes`, and sigma (1: not sorted) with little padding; None if none have.

    Both are those of a shipped kernel.
    """
    if padding(indptr, lanes) <= PLAIN_PADDING:
        return lanes, 1
    windows = _windows(indptr, WINDOW)
    for rows in (2 * lanes, lanes):
        if _padding(windows, rows) <= MAX_PADDING:
            return rows, WINDOW
    # In a single window, the longest rows are neighbours in the result and no others balance them.
    is_wide = len(indptr) - 1 > WIDE_WINDOW and padding(indptr, lanes, WIDE_WINDOW) <= WIDE_PADDING
    return (lanes, WIDE_WINDOW) if is_wide else None
