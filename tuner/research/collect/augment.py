"""Augmentation of patterns by resizing (WACO section 4.1.3) and repetition, which preserve their structure."""

from __future__ import annotations

import numpy as np
from autosparse.tuner.research.generators.coordinates import Coordinates


def resized(source: Coordinates, *, nnz: int, rng: np.random.Generator) -> Coordinates:
    """Resize `source` to another grid with at most about `nnz` entries: position c of n becomes ``floor(c * m / n)``.

    WACO trains on matrices "resized arbitrarily" (section 4.1.3), like images. Every extent gets its own factor in 1/4
    .. 2 (log-uniform; half of the time one factor for all). Coinciding entries merge. Shrinking fills rows and brings
    columns together, growing spreads them.
    """
    n_dims = len(source.shape)
    factors = 2.0 ** rng.uniform(-2.0, 1.0, n_dims)
    if rng.random() < 0.5:
        factors[:] = factors[0]
    # If too many entries remain, shrink all extents alike: entries decrease about as fast as extents when rows keep
    # their fill.
    factors *= min(1.0, nnz / max(1, source.nnz))
    shape = [max(1, int(extent * factor)) for extent, factor in zip(source.shape, factors, strict=True)]
    moved = [column * new // old for column, new, old in zip(source.indices, shape, source.shape, strict=True)]
    return Coordinates.of(shape, moved)


def repeated(source: Coordinates, *, nnz: int, rng: np.random.Generator) -> Coordinates:
    """Place about ``nnz / source.nnz`` copies of `source` on the diagonal, with up to a tenth of their entries coupled.

    Most collections consist of small real patterns; repetition makes them large enough for tuning to pay, without
    changing their rows. A coupled entry keeps its column within a copy and moves to a neighbouring copy. Each copy
    loses up to 2 % of its entries, at random.
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
