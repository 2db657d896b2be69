"""Statistics of a pattern as one vector for learned models, in O(nonzeros) and without torch.

For matrices: the sampled facts of `statistics` (row lengths, block fills, SELL cells, diagonals), the spread of rows
and columns, distances from the diagonal, and the distinct columns per row panel. For tensors: the spread of the slices
of each mode, and the distinct fibres of each pair of modes. Numbers that span orders of magnitude enter as logarithms;
all values are about -2 .. 2.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
from autosparse.tuner.features.statistics import PatternFacts, pattern_facts
from numpy.typing import NDArray

from autosparse.core.dtypes import Hash, NarrowReal, WideIndex
from autosparse.core.pattern import Pattern

Floats = NDArray[NarrowReal]

PANELS: Final = (64, 512, 4096, 32768)
"""Rows per panel in which distinct columns are counted: the rows of B that a cache would have to hold."""
QUANTILES: Final = (0.1, 0.5, 0.9, 0.99)
MAX_COUNTED: Final = 1 << 17
"""Maximum number of entries among which distinct columns are counted; of more entries a hash selects columns."""
_HASH: Final = 2654435761
_PAIR_HASH: Final = Hash(0x9E3779B97F4A7C15)

VECTOR_WIDTHS: Final[Mapping[int, int]] = {2: 81, 3: 43}
"""Length of the vector by number of dimensions."""


def matrix_vector(pattern: Pattern) -> Floats:
    """Return the statistics of a matrix, (VECTOR_WIDTHS[2],). Duplicate entries count."""
    facts = pattern_facts(pattern)
    columns = pattern.indices[: pattern.nnz]
    per_row, per_column = pattern.row_lengths, np.bincount(columns, minlength=pattern.n_cols)
    rows = pattern.rows_of_entries()
    found = [
        *sizes(pattern.n_rows, pattern.n_cols, pattern.nnz),
        *spread(per_row, pattern.nnz),
        *spread(per_column, pattern.nnz),
        *sampled_facts(facts),
        *_distances(rows, columns, pattern.shape),
        *_shared(rows, columns),
    ]
    return np.array(found, dtype=NarrowReal)


def tensor_vector(shape: Sequence[int], indices: Sequence[NDArray[Any]]) -> Floats:
    """Return the statistics of an order-3 tensor with entries at `indices`, (VECTOR_WIDTHS[3],). Duplicates count.

    The order of the entries does not matter. Of many entries, a hash selects the pairs among which distinct ones are
    counted.
    """
    nnz = int(indices[0].size)
    found = [*sizes(*shape, nnz)]
    for column, extent in zip(indices, shape, strict=True):
        found += spread(np.bincount(column, minlength=extent), nnz)
    for one, other in itertools.combinations(indices, 2):
        found += [_pairs_share(one, other), _pairs_share(one, other // 16), _pairs_share(one // 16, other)]
    return np.array(found, dtype=NarrowReal)


def _pairs_share(one: NDArray[Any], other: NDArray[Any]) -> float:
    """Return `_distinct_share` of about MAX_COUNTED of the pairs; copies of a pair are kept or dropped together."""
    keep = max(1, -(-one.size // MAX_COUNTED))
    if keep > 1:
        mixed = (one.astype(Hash) << 32 | other.astype(Hash)) * _PAIR_HASH >> 40
        kept = np.flatnonzero(mixed % keep == 0)
        one, other = one[kept], other[kept]
    return _distinct_share(one, other)


def sampled_facts(facts: PatternFacts) -> list[float]:
    """Return features of a matrix from `facts`: mean column gap, diagonals, block fills and SELL cells, mostly logs."""
    return [
        float(np.log1p(facts.mean_gap) / 8),
        facts.diagonal_share,
        float(np.log(facts.diagonal_cells)),
        *(float(np.log2(max(1e-3, share * r * c)) / 4) for (r, c), share in facts.n_blocks.items() if r * c > 1),
        *(float(np.log2(cells)) for cells in facts.slice_cells.values()),
    ]


def sizes(*numbers: int) -> list[float]:
    """Return logarithms of `numbers` (extents, then nonzeros), and of the mean nonzeros per index of each extent."""
    *extents, nnz = numbers
    found = [float(np.log2(1 + number) / 8 - 2) for number in numbers]
    return found + [float(np.log2(1 + nnz / max(1, extent)) / 8) for extent in extents]


def spread(lengths: NDArray[Any], nnz: int) -> list[float]:
    """Return the inequality of `lengths`: deviation, skewness, maximum, empty and top 1 % shares, quantiles / mean."""
    if lengths.size == 0 or nnz == 0:
        return [0.0] * (5 + len(QUANTILES))
    mean = nnz / lengths.size
    deviation = float(lengths.std())
    away = (lengths - mean) / deviation if deviation else np.zeros(1)
    skewness = float((away * away * away).mean())
    ascending = np.sort(lengths)
    top = ascending[-max(1, lengths.size // 100) :].sum() / nnz
    quantiles = ascending[[int(q * (lengths.size - 1)) for q in QUANTILES]] / mean
    return [
        float(np.log1p(deviation / mean)),
        float(np.sign(skewness) * np.log1p(abs(skewness)) / 3),
        float(np.log2(ascending[-1] / mean) / 8),
        float(np.count_nonzero(lengths == 0) / lengths.size),
        float(top),
        *(float(one) for one in np.log1p(quantiles)),
    ]


def _distances(rows: NDArray[WideIndex], columns: NDArray[Any], shape: tuple[int, int]) -> list[float]:
    """Return four distances from the diagonal: mean, median and 90 % quantile over the width, and log2 of the mean."""
    if rows.size == 0:
        return [0.0] * 4
    step = max(1, rows.size // MAX_COUNTED)
    away = np.abs(columns[::step] - rows[::step] * (shape[1] / shape[0]))
    median, most = np.quantile(away, (0.5, 0.9))
    return [float(one / shape[1]) for one in (away.mean(), median, most)] + [float(np.log2(1 + away.mean()) / 12)]


def _shared(rows: NDArray[WideIndex], columns: NDArray[Any]) -> list[float]:
    """Return log2(distinct (panel, column) pairs / entries) / 4 for each panel height in PANELS."""
    if rows.size == 0:
        return [0.0] * len(PANELS)
    keep = max(1, -(-rows.size // MAX_COUNTED))
    if keep > 1:  # columns are kept or dropped as a whole, which preserves the ratio of distinct columns to entries
        picked = (columns.astype(Hash) * _HASH >> 13) % keep == 0
        rows, columns = rows[picked], columns[picked]
    return [_distinct_share(rows // panel, columns) for panel in PANELS]


def _distinct_share(one: NDArray[Any], other: NDArray[Any]) -> float:
    """Return log2(distinct pairs / pairs) / 4, the pairs being ``(one[n], other[n])``."""
    if one.size == 0:
        return 0.0
    keys = one.astype(WideIndex) << 32 | other
    keys.sort()
    return float(np.log2((1 + np.count_nonzero(keys[1:] != keys[:-1])) / keys.size) / 4)
