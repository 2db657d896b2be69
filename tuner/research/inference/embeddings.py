"""Embeddings of programs and patterns by trained weights, as defined in `tuner.research.networks`.

The runtime computes WACONet's convolutions; the remaining small dense layers use NumPy.

The network reads cells of a pattern: a sample of a matrix's or a tensor's entries, distinct and sorted. They equal what
training reads of sorted, distinct `Coordinates`, but entries outside the sample are not sorted.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np
from autosparse._native import runtime_api
from autosparse._native.inference.waconet import ConvolutionWeights, pooled_means
from autosparse.tuner.features.panels import panel_spans
from autosparse.tuner.features.pattern_vector import matrix_vector, tensor_vector
from autosparse.tuner.learned.codes import Structure, width
from autosparse.tuner.learned.weights import LearnedWeights, Weights, linear, rectified
from autosparse.tuner.space.template import Permutation
from numpy.typing import NDArray

from autosparse.core.dtypes import NarrowIndex, NarrowReal, ProgramCode, WideIndex
from autosparse.core.pattern import Pattern, TensorPattern

Cells = tuple[NDArray[NarrowIndex], ...]

MAX_NUMBERED: Final = 1 << 62
"""Number of cells from which on 64 bits cannot number each of them."""


def looked_at_cells(pattern: Pattern, limit: int) -> tuple[NDArray[NarrowIndex], NDArray[NarrowIndex]]:
    """Return sorted distinct (rows, columns) of all entries, or above `limit` entries of those in `panels`.

    The cost is linear in the entries that are read, and sorts them only where a row's columns are unsorted.
    """
    if pattern.nnz <= limit:
        columns = pattern.indices.astype(WideIndex)
        rows = np.repeat(np.arange(pattern.n_rows), np.diff(pattern.indptr))
    else:
        spans = panel_spans(pattern.indptr, limit)
        places = np.concatenate([np.arange(start, stop) for start, stop in spans.tolist()])
        columns = pattern.indices[places].astype(WideIndex)
        rows = np.searchsorted(pattern.indptr, places, side="right") - 1
    keys = rows * (pattern.n_cols + 1) + columns
    if np.any(keys[1:] <= keys[:-1]):  # columns are unsorted or repeated
        keys = np.unique(keys)
        rows, columns = np.divmod(keys, pattern.n_cols + 1)
    return rows.astype(NarrowIndex), columns.astype(NarrowIndex)


def tensor_cells(pattern: TensorPattern, limit: int) -> Cells:
    """Return the coordinates that `Coordinates.looked_at` samples, distinct and sorted: one array per mode.

    The cost is O(nnz) to find the rows of the panels, plus a sort of the entries that are read.
    """
    if pattern.nnz <= limit and math.prod(pattern.shape) < MAX_NUMBERED:
        return _numbered(pattern)
    rows, n_rows = pattern.coords[0], pattern.shape[0]
    per_row = np.bincount(rows, minlength=n_rows)
    indptr = np.concatenate([[0], np.cumsum(per_row)])
    spans = panel_spans(indptr, limit)
    # Rows of the panels; of a truncated panel, the rows up to the cut.
    first = np.searchsorted(indptr, spans[:, 0], side="right") - 1
    last = np.searchsorted(indptr, spans[:, 1], side="left")
    is_seen = np.zeros(n_rows + 1, WideIndex)
    np.add.at(is_seen, first, 1)
    np.add.at(is_seen, last, -1)
    kept = np.flatnonzero(np.cumsum(is_seen)[:n_rows][rows] > 0)
    cells = pattern.coords[:, kept]
    cells = cells[:, np.lexsort(cells[::-1])]
    places = _places(np.bincount(cells[0], minlength=n_rows), indptr, spans)
    cells = cells[:, places]
    if cells.shape[1] > 1:
        cells = cells[:, np.concatenate([[True], np.any(cells[:, 1:] != cells[:, :-1], axis=0)])]
    return tuple(np.ascontiguousarray(column, NarrowIndex) for column in cells)


def _numbered(pattern: TensorPattern) -> Cells:
    """Return all coordinates, distinct and sorted, by sorting one number per entry, 20 times as fast as `lexsort`."""
    keys = np.zeros(pattern.nnz, WideIndex)
    for column, extent in zip(pattern.coords, pattern.shape, strict=True):
        keys *= extent
        keys += column
    keys.sort()
    if keys.size > 1:
        keys = keys[np.concatenate([[True], keys[1:] != keys[:-1]])]
    found: list[NDArray[NarrowIndex]] = []
    for extent in reversed(pattern.shape):
        keys, column = np.divmod(keys, extent)
        found.append(column.astype(NarrowIndex))
    return tuple(reversed(found))


def _places(
    kept_per_row: NDArray[WideIndex], indptr: NDArray[WideIndex], spans: NDArray[WideIndex]
) -> NDArray[WideIndex]:
    """Return positions of the entries in `spans` among the entries of those rows that were kept."""
    kept_before = np.concatenate([[0], np.cumsum(kept_per_row)])
    first = np.minimum(np.searchsorted(indptr, spans[:, 0], side="right") - 1, kept_per_row.size)
    shift = kept_before[first] - indptr[first]
    return np.concatenate(
        [np.arange(start, stop) + by for (start, stop), by in zip(spans.tolist(), shift.tolist(), strict=True)]
    )


Floats = NDArray[NarrowReal]

SCALE: Final = ".scale"
"""Ending of the name of the scales of an int8 array."""


def dequantised(tensors: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    """Return the arrays of a model file without scales, each int8 array that has scales multiplied by them."""
    return {
        name: value * tensors[name + SCALE] if name + SCALE in tensors else value
        for name, value in tensors.items()
        if not name.endswith(SCALE)
    }


def network_weights(weights: LearnedWeights) -> LearnedWeights:
    """Return the weights of a model file as inference reads them."""
    return replace(weights, tensors=dequantised(weights.tensors))


# -- programs -------------------------------------------------------------------------------------------------------


def embed_programs(rows: NDArray[ProgramCode], weights: LearnedWeights) -> Floats:
    """Return embeddings of programs, (n, 128), from `code_rows`."""
    parts, at = [], 0
    for parameter in weights.space.parameters:
        columns = rows[:, at : at + width(parameter)].astype(WideIndex)
        at += width(parameter)
        if isinstance(parameter, Permutation):
            parts.append(_permutations(columns, parameter, weights.tensors))
        else:
            parts.append(weights.tensors[f"{parameter.name}.weight"][columns[:, 0]])
    hidden = rectified(linear(weights.tensors, "schedule_embedding.0", np.concatenate(parts, axis=1)))
    return linear(weights.tensors, "schedule_embedding.2", hidden)


def _permutations(columns: NDArray[WideIndex], parameter: Permutation, tensors: Weights) -> Floats:
    """Apply the layers of a permutation to its matrices: row p has a 1 at the item of position p; -1: none."""
    n_items = len(parameter.items)
    matrices = (columns[:, :, None] == np.arange(n_items)).reshape(len(columns), n_items * n_items).astype(NarrowReal)
    if f"{parameter.name}.weight" in tensors:  # a single layer, as in the weights that the authors published
        return linear(tensors, parameter.name, matrices)
    hidden = rectified(linear(tensors, f"{parameter.name}.0", matrices))
    return rectified(linear(tensors, f"{parameter.name}.2", hidden))


# -- patterns -------------------------------------------------------------------------------------------------------


def shape_facts(numbers: Sequence[int]) -> Floats:
    """Return log2(1 + x) / 8 - 2 for each of `numbers`: the extents and the number of nonzeros."""
    return np.array([math.log2(1 + number) / 8 - 2 for number in numbers], NarrowReal)


def pooled_layers(pattern: Structure, tensors: Weights, limit: int) -> Floats:
    """Return the mean of every WACONet layer over the cells of a pattern, sampled above `limit` entries."""
    cells = tensor_cells(pattern, limit) if isinstance(pattern, TensorPattern) else looked_at_cells(pattern, limit)
    return pooled_means(cells, ConvolutionWeights.of(tensors), runtime_api.max_threads())


def _waconet(pattern: Structure, weights: LearnedWeights) -> Floats:
    return pooled_layers(pattern, weights.tensors, weights.limit)


def _statistics(pattern: Structure, weights: LearnedWeights) -> Floats:
    if isinstance(pattern, TensorPattern):
        vector = tensor_vector(pattern.shape, list(pattern.coords))
    else:
        vector = matrix_vector(pattern)
    hidden = rectified(linear(weights.tensors, "statistics.0", vector))
    return rectified(linear(weights.tensors, "statistics.2", hidden))


def _nothing(pattern: Structure, weights: LearnedWeights) -> Floats:
    return np.zeros(0, NarrowReal)


DESCRIBERS: Final[Mapping[str, Callable[[Structure, LearnedWeights], Floats]]] = {
    "waconet": _waconet,
    "statistics": _statistics,
    "human": _nothing,
}
"""Extractor name -> function that computes its output for a pattern without torch."""


def embed_pattern(pattern: Structure, weights: LearnedWeights) -> Floats:
    """Return the embedding of a matrix, or of a tensor whose first mode is that of the rows, (128,).

    Raises KeyError for an extractor that needs torch, and ValueError for another order than the model's.
    """
    if len(pattern.shape) != weights.dimension:
        raise ValueError(f"a pattern of {len(pattern.shape)} dimensions for a model of {weights.dimension}")
    return embed_seen(
        DESCRIBERS[weights.extractor](pattern, weights), shape_facts((*pattern.shape, pattern.nnz)), weights
    )


def embed_seen(seen: Floats, facts: Floats, weights: LearnedWeights) -> Floats:
    """Return the embedding, (128,), from the output of the extractor's own layers and the pattern's `shape_facts`."""
    hidden = rectified(linear(weights.tensors, "feature.0", facts))
    both = np.concatenate([seen, linear(weights.tensors, "feature.2", hidden)])
    return linear(weights.tensors, "matrix_embedding.2", rectified(linear(weights.tensors, "matrix_embedding.0", both)))
