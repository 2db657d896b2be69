"""A trained cost model as one safetensors file: the weights by the authors' names, and what they mean as metadata."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np
from autosparse.tuner.networks.cost_model import CostModel, make_extractor
from autosparse.tuner.networks.embedder import ProgramEmbedder
from autosparse.tuner.panels import FEATURE_LIMIT
from autosparse.tuner.safetensors import read_safetensors, write_safetensors
from autosparse.tuner.template import Categorical, Parameter, Permutation

from autosparse._version import __version__
from autosparse.errors import RecordError

FORMAT: Final = "autosparse-cost-model"
FORMAT_VERSION: Final = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Meaning:
    """What a file of weights is for."""

    op: str  # "spmv", "spmm32", ...
    extractor: str  # a row of EXTRACTORS
    dimension: int  # of the patterns
    parameters: tuple[Parameter, ...]  # of a schedule's code, in order
    limit: int = FEATURE_LIMIT  # nonzeros looked at (panels)
    about: Mapping[str, Any] = field(default_factory=dict)  # machine, data, ranking: for people

    def make_model(self, *, backend: str = "own") -> CostModel:
        """A model of this kind, with random weights."""
        return CostModel(
            make_extractor(self.extractor, self.dimension, backend, self.limit), ProgramEmbedder(self.parameters)
        )


def write_weights(path: Path, model: CostModel, meaning: Meaning) -> None:
    """Write the file; it appears whole."""
    metadata = {
        "format": FORMAT,
        "version": str(FORMAT_VERSION),
        "library": __version__,
        "op": meaning.op,
        "extractor": meaning.extractor,
        "dimension": str(meaning.dimension),
        "limit": str(meaning.limit),
        "parameters": json.dumps([_as_data(one) for one in meaning.parameters], separators=(",", ":")),
        "about": json.dumps(dict(meaning.about), sort_keys=True),
    }
    weights = {name: value.astype(np.float32) for name, value in model.weights().items()}
    write_safetensors(path, weights, metadata)


def read_weights(path: Path, *, backend: str = "own") -> tuple[CostModel, Meaning]:
    """The model in a file; RecordError when the file holds something else or another version."""
    tensors, metadata = read_safetensors(path)
    said = (metadata.get("format"), metadata.get("version"))
    if said != (FORMAT, str(FORMAT_VERSION)):
        raise RecordError.broken(path.name, reason=f"holds {said}, not a cost model of version {FORMAT_VERSION}")
    meaning = Meaning(
        op=metadata["op"],
        extractor=metadata["extractor"],
        dimension=int(metadata["dimension"]),
        parameters=tuple(_parameter(row) for row in json.loads(metadata["parameters"])),
        limit=int(metadata["limit"]),
        about=json.loads(metadata["about"]),
    )
    model = meaning.make_model(backend=backend)
    model.load_weights(tensors)
    return model.eval(), meaning


def _as_data(one: Parameter) -> dict[str, Any]:
    if isinstance(one, Categorical):
        return {"name": one.name, "values": list(one.values), "is_ladder": one.is_ladder}
    return {"name": one.name, "items": list(one.items)}


def _parameter(row: Mapping[str, Any]) -> Parameter:
    items: Sequence[str] | None = row.get("items")
    if items is not None:
        return Permutation(row["name"], tuple(items))
    return Categorical(row["name"], tuple(row["values"]), row["is_ladder"])
