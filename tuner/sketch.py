"""What boosted trees see of a pattern: numbers that cost a sample, not a pass over the entries.

Matrices: extents, spread of the row lengths, longest row, and what `statistics` samples (column gaps, diagonals, block
fills, cells of slices): O(rows), about a millisecond. Tensors of order 3: `pattern_vector`, O(nonzeros).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np
from autosparse.tuner.counts import NUMPY, Counter
from autosparse.tuner.pattern_vector import sampled_facts, sizes, spread, tensor_vector
from autosparse.tuner.statistics import pattern_facts
from numpy.typing import NDArray

from autosparse.pattern import Pattern, TensorPattern

SKETCH_WIDTHS: Final[Mapping[int, int]] = {2: 65, 3: 43}
"""Numbers in a sketch, by dimension."""
MOST_ROWS: Final = 1 << 14
"""Rows, about, whose lengths are sorted."""


def sketch(pattern: Pattern | TensorPattern, counter: Counter = NUMPY) -> NDArray[np.float32]:
    """The sketch of a matrix, or of a tensor whose first mode is that of the rows: (SKETCH_WIDTHS[dimension],)."""
    if isinstance(pattern, TensorPattern):
        return tensor_vector(pattern.shape, list(pattern.coords))
    facts = pattern_facts(pattern, counter=counter)
    step = pattern.n_rows // MOST_ROWS | 1  # odd: rows of a pattern often alternate
    lengths = pattern.row_lengths[::step]
    numbers = [
        *sizes(pattern.n_rows, pattern.n_cols, pattern.nnz),
        *spread(lengths, int(lengths.sum())),
        *sampled_facts(facts),
        float(np.log2(max(1.0, facts.max_row / max(1e-9, facts.mean_row))) / 8),
    ]
    return np.array(numbers, np.float32)
