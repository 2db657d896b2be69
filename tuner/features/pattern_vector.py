"""Statistics of a pattern as one vector for learned models, in O(nonzeros) and without torch.

Matrices: what `statistics` samples (row lengths, block fills, cells of slices, diagonals), and beside it the spread of
rows and columns, distances from the diagonal, and how many distinct columns panels of rows share. Tensors: the same
questions about the slices of each mode and the fibres of each pair of modes. Numbers that span orders of magnitude
enter by their logarithm; all are about -2 .. 2.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
from autosparse.tuner.features.statistics import PatternFacts, pattern_facts
from numpy.typing import NDArray

from autosparse.core.pattern import Pattern

Floats = NDArray[np.float32]

PANELS: Final = (64, 512, 4096, 32768)
"""Rows whose distinct columns are counted together: B's rows that a cache would have to hold meanwhile."""
QUANTILES: Final = (0.1, 0.5, 0.9, 0.99)
MAX_COUNTED: Final = 1 << 17
"""Entries among which distinct columns are counted; of more, those whose columns a hash picks."""
_HASH: Final = 2654435761
_PAIR_HASH: Final = np.uint64(0x9E3779B97F4A7C15)

VECTOR_WIDTHS: Final[Mapping[int, int]] = {2: 81, 3: 43}
"""Length of the vector, by dimension."""


def matrix_vector(pattern: Pattern) -> Floats:
    """The statistics of a matrix, (VECTOR_WIDTHS[2],). Duplicates count."""
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
    return np.array(found, dtype=np.float32)


def tensor_vector(shape: Sequence[int], indices: Sequence[NDArray[Any]]) -> Floats:
    """The statistics of a tensor of order 3 whose entries have these `indices`, (VECTOR_WIDTHS[3],). Duplicates count.

    In any order. Of many entries distinct pairs are counted among those that a hash of the pair picks.
    """
    nnz = int(indices[0].size)
    found = [*sizes(*shape, nnz)]
    for column, extent in zip(indices, shape, strict=True):
        found += spread(np.bincount(column, minlength=extent), nnz)
    for one, other in itertools.combinations(indices, 2):
        found += [_pairs_share(one, other), _pairs_share(one, other // 16), _pairs_share(one // 16, other)]
    return np.array(found, dtype=np.float32)


def _pairs_share(one: NDArray[Any], other: NDArray[Any]) -> float:
    """`_distinct_share` of at most about MAX_COUNTED entries: of each pair all copies, or none."""
    keep = max(1, -(-one.size // MAX_COUNTED))
    if keep > 1:
        mixed = (one.astype(np.uint64) << 32 | other.astype(np.uint64)) * _PAIR_HASH >> 40
        kept = np.flatnonzero(mixed % keep == 0)
        one, other = one[kept], other[kept]
    return _distinct_share(one, other)


def sampled_facts(facts: PatternFacts) -> list[float]:
    """Column gaps, diagonals, filled blocks and cells of slices, as logarithms."""
    return [
        float(np.log1p(facts.mean_gap) / 8),
        facts.diagonal_share,
        float(np.log(facts.diagonal_cells)),
        *(float(np.log2(max(1e-3, share * r * c)) / 4) for (r, c), share in facts.n_blocks.items() if r * c > 1),
        *(float(np.log2(cells)) for cells in facts.slice_cells.values()),
    ]


def sizes(*numbers: int) -> list[float]:
    """Logarithms of extents and nonzeros, and of the mean nonzeros along each extent's index."""
    *extents, nnz = numbers
    found = [float(np.log2(1 + number) / 8 - 2) for number in numbers]
    return found + [float(np.log2(1 + nnz / max(1, extent)) / 8) for extent in extents]


def spread(lengths: NDArray[Any], nnz: int) -> list[float]:
    """How unequal: deviation, skewness, largest, empty ones, share of the top 1 %, quantiles over the mean."""
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


def _distances(rows: NDArray[np.int64], columns: NDArray[Any], shape: tuple[int, int]) -> list[float]:
    """Distance from the diagonal of the rectangle, as a share of its width: mean, median, 90 %; and in columns."""
    if rows.size == 0:
        return [0.0] * 4
    step = max(1, rows.size // MAX_COUNTED)
    away = np.abs(columns[::step] - rows[::step] * (shape[1] / shape[0]))
    median, most = np.quantile(away, (0.5, 0.9))
    return [float(one / shape[1]) for one in (away.mean(), median, most)] + [float(np.log2(1 + away.mean()) / 12)]


def _shared(rows: NDArray[np.int64], columns: NDArray[Any]) -> list[float]:
    """log2 of distinct columns over entries in panels of each height of PANELS, over 4."""
    if rows.size == 0:
        return [0.0] * len(PANELS)
    keep = max(1, -(-rows.size // MAX_COUNTED))
    if keep > 1:  # whole columns are kept or left out: that keeps the ratio of distinct ones to entries
        picked = (columns.astype(np.uint64) * _HASH >> 13) % keep == 0
        rows, columns = rows[picked], columns[picked]
    return [_distinct_share(rows // panel, columns) for panel in PANELS]


def _distinct_share(one: NDArray[Any], other: NDArray[Any]) -> float:
    """log2 of (distinct pairs over pairs), over 4."""
    if one.size == 0:
        return 0.0
    keys = one.astype(np.int64) << 32 | other
    keys.sort()
    return float(np.log2((1 + np.count_nonzero(keys[1:] != keys[:-1])) / keys.size) / 4)
