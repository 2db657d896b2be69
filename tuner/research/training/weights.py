"""File of a trained network in safetensors format: weights by the authors' names, and their meaning as metadata."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np
from autosparse.tuner.learned.predict import PORTFOLIO
from autosparse.tuner.learned.safetensors import read_metadata, read_safetensors
from autosparse.tuner.learned.weights import FORMAT, FORMAT_VERSION
from autosparse.tuner.research.graph.search import ENTRIES, NEIGHBOURS
from autosparse.tuner.research.inference.embeddings import SCALE, dequantised
from autosparse.tuner.research.networks.cost_model import NetworkCostModel
from autosparse.tuner.research.training.meaning import Meaning, write_model
from numpy.typing import NDArray

from autosparse.core.dtypes import NarrowReal, SmallCode
from autosparse.errors import RecordError

__all__ = ["Meaning", "quantised", "read_weights", "tensors_of", "write_weights"]

MIN_ROUNDED: Final = 2048
"""Minimum size of an array that is stored as int8; smaller ones stay float32."""
NO_WEIGHTS: Final = frozenset({PORTFOLIO, NEIGHBOURS, ENTRIES})
"""Arrays of a model file that are not weights of the network."""


def write_weights(path: Path, model: NetworkCostModel, meaning: Meaning, *, is_rounded: bool = False) -> None:
    """Write the weights of `model`, with the metadata `meaning`, to a weights file at `path`, atomically.

    With `is_rounded`, large arrays are stored as int8.
    """
    weights = {name: value.astype(NarrowReal) for name, value in model.weights().items()}
    write_model(path, quantised(weights) if is_rounded else weights, meaning)


def quantised(weights: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    """Return large arrays as int8 with a scale per input, which `dequantised` multiplies; others unchanged.

    Inputs of a layer differ in size, and a small input has large weights, so each has a scale of its own.
    """
    found: dict[str, NDArray[Any]] = {}
    for name, value in weights.items():
        if value.size < MIN_ROUNDED or value.dtype != NarrowReal:
            found[name] = value
            continue
        axes = tuple(axis for axis in range(value.ndim) if axis != 1)  # (out, in), (offset, in, out)
        scale = np.maximum(np.abs(value).max(axis=axes, keepdims=True), NarrowReal(1e-30)) / NarrowReal(127)
        found[name], found[name + SCALE] = np.round(value / scale).astype(SmallCode), scale
    return found


def tensors_of(path: Path) -> dict[str, NDArray[Any]]:
    """Return the weights in a model file, without its programs and their graph."""
    return {name: value for name, value in dequantised(read_safetensors(path)[0]).items() if name not in NO_WEIGHTS}


def read_weights(path: Path, *, backend: str = "own") -> tuple[NetworkCostModel, Meaning]:
    """Read the model in a file; raise RecordError for other contents or another version."""
    metadata = read_metadata(path)
    said = (metadata.get("format"), metadata.get("version"))
    if said != (FORMAT, FORMAT_VERSION):
        raise RecordError.broken(path.name, reason=f"holds {said}, not a cost model of version {FORMAT_VERSION}")
    meaning = Meaning.of(metadata)
    model = meaning.make_model(backend=backend)
    model.load_weights(tensors_of(path))
    return model.eval(), meaning
