"""Generators of three-dimensional tensor patterns: uniform, heavy tails, graphs over time, bricks."""

from __future__ import annotations

import numpy as np
from autosparse.tuner.research.generators.coordinates import Coordinates
from autosparse.tuner.research.generators.graphs import drawn_by_rank

from autosparse.core.dtypes import WideIndex


def _extents(rng: np.random.Generator, nnz: int) -> tuple[int, int, int]:
    """Draw three unequal extents; matricised along the first mode, the columns stay below 2**31."""
    first, second = (max(8, int(nnz / 2.0 ** rng.uniform(1.0, 8.0))) for _ in range(2))
    third = max(2, int(2.0 ** rng.uniform(1.0, 14.0)))
    return first, second, max(2, min(third, ((1 << 31) - 1) // second))


def uniform(rng: np.random.Generator, nnz: int) -> Coordinates:
    """Generate independent uniform positions."""
    shape = _extents(rng, nnz)
    return Coordinates.of(shape, [rng.integers(0, extent, nnz) for extent in shape])


def power_law(rng: np.random.Generator, nnz: int) -> Coordinates:
    """Draw each mode by rank with its own exponent, in random order."""
    shape = _extents(rng, nnz)
    drawn = [drawn_by_rank(rng, extent, nnz, rng.uniform(0.0, 1.1)) for extent in shape]
    return Coordinates.of(shape, [rng.permutation(extent)[one] for extent, one in zip(shape, drawn, strict=True)])


def temporal(rng: np.random.Generator, nnz: int) -> Coordinates:
    """Generate edges of a heavy-tailed graph, each present for some consecutive steps: (from, to, step)."""
    n, _, n_steps = _extents(rng, nnz)
    n_steps = min(n_steps, ((1 << 31) - 1) // n)
    duration = 2.0 ** rng.uniform(0.0, np.log2(n_steps))
    n_edges = max(4, int(nnz / max(1.0, duration)))
    rows, cols = (drawn_by_rank(rng, n, n_edges, rng.uniform(0.0, 0.9)) for _ in range(2))
    lasts = np.maximum(1, rng.exponential(duration, n_edges).astype(WideIndex))
    lasts = np.minimum(lasts, n_steps)
    starts = rng.integers(0, n_steps, n_edges)
    edge = np.repeat(np.arange(n_edges), lasts)
    step = np.arange(edge.size) - np.repeat(np.cumsum(lasts) - lasts, lasts) + starts[edge]
    return Coordinates.of((n, n, n_steps), (rows[edge], cols[edge], step))


def blocks(rng: np.random.Generator, nnz: int) -> Coordinates:
    """Generate dense bricks with sides 2 to 8 at random positions."""
    shape = _extents(rng, nnz)
    sides = [int(rng.integers(2, min(9, extent + 1))) for extent in shape]
    volume = int(np.prod(sides))
    n_bricks = max(1, nnz // volume)
    inner = np.unravel_index(np.arange(volume), tuple(sides))
    corners = [rng.integers(0, extent - side + 1, n_bricks) for extent, side in zip(shape, sides, strict=True)]
    return Coordinates.of(shape, [corner[:, None] + one for corner, one in zip(corners, inner, strict=True)])
