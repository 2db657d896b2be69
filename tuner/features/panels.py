"""Sample of a large pattern for learned feature extractors: evenly spread panels of consecutive rows.

The cost of features is bounded: of a pattern with more entries than a limit, only N_PANELS row panels are read, at
their original positions. Panels keep the local structure and sample the global one. Training and inference select the
same entries, so that a model sees the distribution it was trained on.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from autosparse.core.dtypes import WideIndex

FEATURE_LIMIT: Final = 1 << 15
"""Maximum number of entries for which a pattern is read as a whole; of larger patterns at most twice as many are read.

The native features of that many entries take 3 to 14 ms on two cores: 20 to 90 SpMVs of 300,000 nonzeros.
"""
WHOLE: Final = 1 << 62
"""Limit that no pattern exceeds: everything is read."""
N_PANELS: Final = 32
ALIGNMENT: Final = 16
"""Row multiple at which panels of at least that many rows begin and end, so that no block is cut."""


def panel_spans(indptr: NDArray[np.integer[Any]], limit: int = FEATURE_LIMIT) -> NDArray[WideIndex]:
    """Return the sampled entries as spans ``start, stop`` of the compressed rows, (n, 2), ascending and disjoint.

    All entries are returned when there are at most `limit`. Otherwise panel p of N_PANELS has H rows from row ``p
    (n_rows - H) / (N_PANELS - 1)``, where H is chosen such that all panels together hold `limit` entries on average. H
    and the first rows are rounded down to multiples of ALIGNMENT when H is at least ALIGNMENT. A panel with more than
    ``2 limit / N_PANELS`` entries is truncated to that number.
    """
    n_rows, nnz = len(indptr) - 1, int(indptr[-1])
    if nnz <= limit:
        return np.array([[0, nnz]], WideIndex)
    height = max(1, n_rows * limit // (nnz * N_PANELS))
    step = ALIGNMENT if height >= ALIGNMENT else 1
    height = height // step * step
    first = np.unique(np.arange(N_PANELS) * (n_rows - height) // (N_PANELS - 1) // step * step)
    starts = np.asarray(indptr, WideIndex)[first]
    stops = np.minimum(np.asarray(indptr, WideIndex)[first + height], starts + 2 * limit // N_PANELS)
    return np.stack([starts, stops], axis=1)
