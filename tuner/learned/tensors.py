"""Input of learned models for a user's tensor: its coordinates, with the mode of the product as rows."""

from __future__ import annotations

from autosparse.core.pattern import TensorPattern


def rows_first(pattern: TensorPattern, mode: int) -> TensorPattern:
    """Return `pattern` with `mode` moved before the other modes; the pattern itself for mode 0."""
    if mode == 0:
        return pattern
    order = [mode, *(n for n in range(pattern.ndim) if n != mode)]
    return TensorPattern(tuple(pattern.shape[n] for n in order), pattern.coords[order])
