"""More patterns from one: resized (WACO §4.1.3) and repeated. Both keep what made the pattern particular."""

from __future__ import annotations

import numpy as np
from autosparse.tuner.generators.coordinates import Coordinates


def resized(source: Coordinates, *, nnz: int, rng: np.random.Generator) -> Coordinates:
    """`source` on another grid, of at most about `nnz` entries: position c of extent n becomes ``floor(c * m / n)``.

    WACO trains on matrices "resized arbitrarily" (§4.1.3), as one resizes a picture: every extent gets a factor of its
    own in 1/4 .. 2 (log-uniform; half of the time the same for all). Entries that meet become one. Shrinking fills
    rows and moves columns together, growing spreads them.
    """
    n_dims = len(source.shape)
    factors = 2.0 ** rng.uniform(-2.0, 1.0, n_dims)
    if rng.random() < 0.5:
        factors[:] = factors[0]
    # Where this leaves too many, shrink all alike: entries fall about as fast as the extents when rows stay as full.
    factors *= min(1.0, nnz / max(1, source.nnz))
    shape = [max(1, int(extent * factor)) for extent, factor in zip(source.shape, factors, strict=True)]
    moved = [column * new // old for column, new, old in zip(source.indices, shape, source.shape, strict=True)]
    return Coordinates.of(shape, moved)


def repeated(source: Coordinates, *, nnz: int, rng: np.random.Generator) -> Coordinates:
    """About ``nnz / source.nnz`` copies of `source` along the diagonal, up to a tenth of their entries coupled.

    Small real patterns are most of any collection; this makes them as large as the ones that are worth tuning without
    changing their rows. A coupled entry keeps its column within a copy and moves to a neighbouring copy. Copies lose a
    few entries, each others.
    """
    n_copies = max(1, round(nnz / max(1, source.nnz)))
    coupled, lost = float(rng.choice([0.0, 0.01, 0.1])), float(rng.choice([0.0, 0.02]))
    copy = np.repeat(np.arange(n_copies), source.nnz)
    column_copy = copy + (rng.random(copy.size) < coupled) * rng.choice([-1, 1], copy.size)
    moved = [np.tile(column, n_copies) for column in source.indices]
    places = [copy, *[np.clip(column_copy, 0, n_copies - 1)] * (len(moved) - 1)]
    kept = rng.random(copy.size) >= lost
    indices = [(at * extent + one)[kept] for at, extent, one in zip(places, source.shape, moved, strict=True)]
    return Coordinates.of([extent * n_copies for extent in source.shape], indices)
