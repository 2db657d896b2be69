"""Generators of patterns of discretised equations: stencils, meshes, bands, blocks."""

from __future__ import annotations

import itertools

import numpy as np
import scipy.spatial
from autosparse.tuner.research.generators.coordinates import Coordinates, Ints

from autosparse.core.dtypes import WideIndex


def shuffled(rng: np.random.Generator, n: int, share: float) -> Ints:
    """Return a permutation of 0 .. n-1 that moves about `share` of the numbers: 0 none, 1 all."""
    order = np.arange(n)
    moved = np.flatnonzero(rng.random(n) < share)
    order[moved] = order[rng.permutation(moved)]
    return order


def with_unknowns(rows: Ints, cols: Ints, n: int, n_unknowns: int) -> Coordinates:
    """Expand each entry into a dense `n_unknowns` x `n_unknowns` block, for several unknowns per point."""
    if n_unknowns == 1:
        return Coordinates.of((n, n), (rows, cols))
    inner, across = np.divmod(np.arange(n_unknowns * n_unknowns), n_unknowns)
    wide_rows, wide_cols = rows[:, None] * n_unknowns + inner, cols[:, None] * n_unknowns + across
    return Coordinates.of((n * n_unknowns, n * n_unknowns), (wide_rows, wide_cols))


def _order_share(rng: np.random.Generator) -> float:
    """Draw the share of the natural order that is lost: usually none, sometimes some, sometimes all."""
    return float(rng.choice([0.0, 0.0, 0.02, 0.3, 1.0]))


def stencil(rng: np.random.Generator, nnz: int) -> Coordinates:
    """Generate a star (5, 7 points) or box (9, 27) stencil on a grid with unequal sides, 1 to 6 unknowns per point."""
    n_dims, is_box = int(rng.integers(2, 4)), bool(rng.integers(2))
    offsets = [
        offset for offset in itertools.product((-1, 0, 1), repeat=n_dims) if is_box or sum(map(abs, offset)) <= 1
    ]
    n_unknowns = int(rng.choice([1, 1, 1, 2, 3, 4, 6]))
    n_points = max(4, nnz // (len(offsets) * n_unknowns**2))
    stretch = rng.uniform(0.3, 3.0, n_dims)
    sides = np.maximum(2, (stretch * (n_points / stretch.prod()) ** (1 / n_dims))).astype(WideIndex)
    n = int(sides.prod())
    places = np.stack(np.unravel_index(np.arange(n), tuple(sides)))
    order = shuffled(rng, n, _order_share(rng))
    rows, cols = [], []
    for offset in offsets:
        moved = places + np.array(offset)[:, None]
        inside = np.all((moved >= 0) & (moved < sides[:, None]), axis=0)
        rows.append(order[np.flatnonzero(inside)])
        cols.append(order[np.ravel_multi_index(tuple(moved[:, inside]), tuple(sides))])
    return with_unknowns(np.concatenate(rows), np.concatenate(cols), n, n_unknowns)


def mesh(rng: np.random.Generator, nnz: int) -> Coordinates:
    """Connect random points to their 4 to 24 nearest neighbours, symmetrically; points are ordered in strips."""
    n_dims, n_near = int(rng.integers(2, 4)), int(rng.integers(4, 25))
    n_unknowns = int(rng.choice([1, 1, 2, 3]))
    n = max(n_near + 2, int(nnz / (1.3 * n_near * n_unknowns**2)))
    points = rng.random((n, n_dims)) ** rng.uniform(0.5, 2.0)
    # Strips of cells keep neighbours close in the order, as mesh generators do.
    strip = np.floor(points[:, 0] * max(1.0, n ** (1 / n_dims) / rng.uniform(1.0, 8.0)))
    points = points[np.lexsort((points[:, 1], strip))]
    _, near = scipy.spatial.cKDTree(points).query(points, k=n_near + 1)
    rows, cols = np.repeat(np.arange(n), n_near + 1), np.asarray(near, dtype=WideIndex).ravel()
    order = shuffled(rng, n, _order_share(rng))
    rows, cols = order[rows], order[cols]
    return with_unknowns(np.concatenate((rows, cols)), np.concatenate((cols, rows)), n, n_unknowns)


def banded(rng: np.random.Generator, nnz: int) -> Coordinates:
    """Generate a few diagonals, full or partly filled, or entries scattered within a band."""
    per_row = int(rng.integers(3, 64))
    n = max(per_row, nnz // per_row)
    rows = np.repeat(np.arange(n), per_row)
    if rng.random() < 0.5:
        reach = max(per_row, int(n * 10.0 ** rng.uniform(-3, -0.5)))
        offsets = rng.choice(2 * reach + 1, size=min(per_row, 2 * reach + 1), replace=False) - reach
        kept = rng.random(n * offsets.size) < rng.choice([1.0, 1.0, 0.9, 0.5])
        rows, cols = np.repeat(np.arange(n), offsets.size)[kept], (np.arange(n)[:, None] + offsets).ravel()[kept]
    else:
        width = max(2, int(per_row * 10.0 ** rng.uniform(0, 2)))
        cols = rows + rng.integers(-width, width + 1, rows.size)
    return Coordinates.of((n, n), (rows, cols))


def blocks(rng: np.random.Generator, nnz: int) -> Coordinates:
    """Generate dense blocks of one size (2 x 2 to 32 x 16), near the diagonal or anywhere, with some cells missing."""
    r, c = int(rng.choice([2, 3, 4, 5, 6, 8, 16, 32])), int(rng.choice([2, 3, 4, 6, 8, 16]))
    fill = float(rng.choice([1.0, 1.0, 0.9, 0.6]))
    n_blocks = max(1, int(nnz / (r * c * fill)))
    per_row = int(rng.integers(1, 24))
    n_block_rows = max(2, n_blocks // per_row)
    n_block_cols = max(2, int(n_block_rows * r / c * 2.0 ** rng.uniform(-2, 2)))
    block_rows = rng.integers(0, n_block_rows, n_blocks)
    if rng.random() < 0.5:
        spread = max(2, int(n_block_cols * 10.0 ** rng.uniform(-2.5, -0.5)))
        centre = block_rows * n_block_cols // n_block_rows
        block_cols = np.clip(centre + rng.integers(-spread, spread + 1, n_blocks), 0, n_block_cols - 1)
    else:
        block_cols = rng.integers(0, n_block_cols, n_blocks)
    shift = rng.integers(0, r) if rng.random() < 0.3 else 0  # blocks that no aligned format matches
    inner, across = np.divmod(np.arange(r * c), c)
    rows, cols = block_rows[:, None] * r + inner + shift, block_cols[:, None] * c + across
    kept = rng.random(rows.shape) < fill
    return Coordinates.of((n_block_rows * r + int(shift), n_block_cols * c), (rows[kept], cols[kept]))
