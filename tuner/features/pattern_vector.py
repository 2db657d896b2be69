"""Statistics of a pattern as one vector for learned models, without torch: `pattern_vector` and `sketch`.

Vectors take O(nonzeros). For matrices they hold the sampled facts of `statistics` (row lengths, block fills, SELL
cells, diagonals), the spread of rows and columns, distances from the diagonal, and the distinct columns per row panel.
For tensors: the spread of the slices of each mode, and the distinct fibres of each pair of modes. Numbers that span
orders of magnitude enter as logarithms; all values are about -2 .. 2.

A sketch, for boosted trees, replaces full passes over the entries of a matrix by samples. It takes O(rows), about a
millisecond: extents, spread of row lengths, longest row, the sampled facts of `statistics`, reuse of columns among
consecutive entries, and identical rows. For wide products it also has the reuse with rows sorted by first column,
O(nonzeros) but less than a product, and in breadth-first order, from a sample. Features of machine and product come
from `setting`.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
from autosparse.tuner.features.statistics import Locality, PatternFacts, pattern_facts, shares_in_order, shares_of_walks
from numpy.typing import NDArray

from autosparse.core.dtypes import Hash, NarrowReal, WideIndex
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
