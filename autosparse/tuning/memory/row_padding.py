"""Padding of rows in slices, by which the early race chooses its candidate; it loads nothing that only tuning needs."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from autosparse.targets.priors import number

MAX_PADDING: Final = number("early race", "maximum padding")
"""Maximum ratio of stored cells to entries at which slices are a candidate."""
PLAIN_PADDING: Final = number("early race", "padding without sorting")
"""Maximum ratio of stored cells to entries at which rows stay in their order."""
WINDOW: Final = 512
"""Number of rows within which rows are sorted by length (`sigma` of the shipped kernels)."""
MAX_WINDOWS: Final = 64
"""Maximum number of windows of rows from which padding is estimated."""


def padding(row_lengths: Any, rows: int, *, is_sorted: bool) -> float:
    """Return stored cells over entries in slices of `rows` rows, estimated from at most MAX_WINDOWS windows."""
    n_windows = len(row_lengths) // WINDOW
    if not n_windows:
        return 1.0
    windows = row_lengths[: n_windows * WINDOW].reshape(n_windows, WINDOW)
    windows = windows[:: -(-n_windows // MAX_WINDOWS)]
    if is_sorted:
        windows = np.sort(windows, axis=1)
    n_entries = int(windows.sum())
    return float(windows.reshape(-1, rows).max(axis=1).sum()) * rows / n_entries if n_entries else np.inf


def slices(indptr: Any, lanes: int) -> tuple[int, int] | None:
    """Return rows of a slice, a multiple of `lanes`, and sigma (1: not sorted) with little padding; None if none have.

    Both are those of a shipped kernel.
    """
    lengths = np.diff(indptr)
    if padding(lengths, lanes, is_sorted=False) <= PLAIN_PADDING:
        return lanes, 1
    for rows in (2 * lanes, lanes):
        if padding(lengths, rows, is_sorted=True) <= MAX_PADDING:
            return rows, WINDOW
    return None
