"""Features of a pattern for boosted trees: numbers from samples instead of full passes over the entries.

For matrices: extents, spread of row lengths, longest row, the sampled facts of `statistics`, reuse of columns among
consecutive entries, and identical rows, in O(rows), about a millisecond. For wide products also the reuse with rows
sorted by first column, O(nonzeros) but less than a product, and in breadth-first order, from a sample. For order-3
tensors: `pattern_vector`, O(nonzeros). Features of machine and product come from `setting`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np
from autosparse.tuner.features.pattern_vector import sampled_facts, sizes, spread, tensor_vector
from autosparse.tuner.features.statistics import Locality, pattern_facts, shares_in_order, shares_of_walks
from numpy.typing import NDArray

from autosparse.core.dtypes import NarrowReal
from autosparse.core.pattern import Pattern, TensorPattern

SKETCH_WIDTHS: Final[Mapping[int, int]] = {2: 75, 3: 43}
"""Length of a sketch by number of dimensions."""
MAX_ROWS: Final = 1 << 14
"""Approximate maximum number of rows whose lengths are sorted."""
REUSED_WITHIN: Final = (256, 1024, 8192)
"""Numbers of consecutive entries among which distinct columns are counted."""


def sketch(pattern: Pattern | TensorPattern, *, is_wide: bool = True) -> NDArray[NarrowReal]:
    """Return the sketch of a matrix, or of a tensor whose first mode is that of the rows: (SKETCH_WIDTHS[dimension],).

    `is_wide`: whether the product has several columns, so that reordering rows may pay; otherwise those features are 0.
    """
    if isinstance(pattern, TensorPattern):
        return tensor_vector(pattern.shape, list(pattern.coords)).astype(NarrowReal)
    facts, locality = pattern_facts(pattern), Locality(pattern)
    step = pattern.n_rows // MAX_ROWS | 1  # odd, because rows of a pattern often alternate
    lengths = pattern.row_lengths[::step]
    shares = [_small(locality.distinct_share(n)) if pattern.nnz else 0.0 for n in REUSED_WITHIN]
    ordered = [0.0] * (2 * len(REUSED_WITHIN))
    if is_wide and pattern.nnz:
        in_order = (*shares_in_order(pattern, REUSED_WITHIN), *shares_of_walks(pattern, REUSED_WITHIN))
        ordered = [_small(share) - before for share, before in zip(in_order, shares * 2, strict=True)]
    numbers = [
        *sizes(pattern.n_rows, pattern.n_cols, pattern.nnz),
        *spread(lengths, int(lengths.sum())),
        *sampled_facts(facts),
        float(np.log2(max(1.0, facts.max_row / max(1e-9, facts.mean_row))) / 8),
        *shares,
        *ordered,
        float(pattern.has_identical_rows),
    ]
    return np.array(numbers, NarrowReal)


def _small(share: float) -> float:
    return float(np.log2(max(1e-4, share)) / 4)
