"""Embeddings of programs and patterns by trained weights, as defined in `tuner.research.networks`.

The runtime computes WACONet's convolutions; the remaining small dense layers use NumPy.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np
from autosparse._native import runtime_api
from autosparse._native.inference.waconet import ConvolutionWeights, pooled_means
from autosparse.tuner.features.pattern_vector import matrix_vector, tensor_vector
from autosparse.tuner.learned.codes import Structure, width
from autosparse.tuner.learned.weights import LearnedWeights, Weights, linear, rectified
from autosparse.tuner.research.inference.cells import looked_at_cells, tensor_cells
from autosparse.tuner.space.template import Permutation
from numpy.typing import NDArray

from autosparse.core.dtypes import NarrowReal, ProgramCode, WideIndex
from autosparse.core.pattern import TensorPattern

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
