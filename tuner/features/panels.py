"""Which entries of a large pattern a learned featuriser looks at: panels of consecutive rows, evenly spread.

Features must cost little beside the products they are to speed up, so their cost is bounded: of a pattern with more
entries than a limit, N_PANELS panels of rows are kept, at their places. Local structure stays what it is inside a
panel, global structure is seen through stripes. The same entries in training and at run time, or the model would be
asked about other patterns than it has learned.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

FEATURE_LIMIT: Final = 1 << 15
"""Entries up to which a pattern is looked at as a whole; of larger ones at most twice as many are.

Native features of so many take about 3 to 14 ms on two cores, 20 to 90 products with a vector of 300,000 nonzeros.
"""
N_PANELS: Final = 32
ALIGNMENT: Final = 16
"""Panels of at least so many rows begin and end at multiples of it: blocks are not cut."""


def panel_spans(indptr: NDArray[np.integer[Any]], limit: int = FEATURE_LIMIT) -> NDArray[np.int64]:
    """The entries looked at as spans ``start, stop`` of compressed rows, (n, 2), ascending and disjoint.

    All of them when there are at most `limit`. Else panel p of N_PANELS has H rows from row ``p (n_rows - H) /
    (N_PANELS - 1)``, where H rows of every panel together hold `limit` entries on average; H and the first rows are
    rounded down to multiples of ALIGNMENT when H is at least that. A panel with more than ``2 limit / N_PANELS``
    entries is cut after so many.
    """
    n_rows, nnz = len(indptr) - 1, int(indptr[-1])
    if nnz <= limit:
        return np.array([[0, nnz]], np.int64)
    height = max(1, n_rows * limit // (nnz * N_PANELS))
    step = ALIGNMENT if height >= ALIGNMENT else 1
    height = height // step * step
    first = np.unique(np.arange(N_PANELS) * (n_rows - height) // (N_PANELS - 1) // step * step)
    starts = np.asarray(indptr, np.int64)[first]
    stops = np.minimum(np.asarray(indptr, np.int64)[first + height], starts + 2 * limit // N_PANELS)
    return np.stack([starts, stops], axis=1)
