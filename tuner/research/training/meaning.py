"""Metadata of a weights file, and the functions that write one in the safetensors format, without torch."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from autosparse.tuner.features.panels import WHOLE
from autosparse.tuner.learned.safetensors import DTYPES
from autosparse.tuner.learned.weights import FORMAT, FORMAT_VERSION
from autosparse.tuner.space.template import Categorical, Parameter, Permutation
from numpy.typing import NDArray

from autosparse._version import __version__

if TYPE_CHECKING:
    from autosparse.tuner.research.networks.cost_model import NetworkCostModel


@dataclass(frozen=True, slots=True, kw_only=True)
class Meaning:
    """Metadata of a weights file, from which the model can be built."""

    op: str  # "spmv", "spmm32", ...
    extractor: str  # a name in EXTRACTORS, or "boosted"
    dimension: int  # number of dimensions of the patterns
    parameters: tuple[Parameter, ...]  # parameters of a schedule's code, in order
    limit: int = WHOLE  # maximum nonzeros that the extractor reads (panels)
    about: Mapping[str, Any] = field(default_factory=dict)  # machine, data, ranking: for human readers

    def make_model(self, *, backend: str = "own") -> NetworkCostModel:
        """Return a network of this kind with random weights (extra `train`)."""
        from autosparse.tuner.research.networks.cost_model import NetworkCostModel, ProgramEmbedder, make_extractor

        return NetworkCostModel(
            make_extractor(self.extractor, self.dimension, backend, self.limit), ProgramEmbedder(self.parameters)
        )

    @classmethod
    def of(cls, metadata: Mapping[str, str]) -> Meaning:
        """Build from the metadata of a file."""
        return cls(
            op=metadata["op"],
            extractor=metadata["extractor"],
            dimension=int(metadata["dimension"]),
            parameters=tuple(_parameter(row) for row in json.loads(metadata["parameters"])),
            limit=int(metadata["limit"]),
            about=json.loads(metadata["about"]),
        )


def write_model(path: Path, tensors: Mapping[str, NDArray[Any]], meaning: Meaning) -> None:
    """Write `tensors`, with the metadata `meaning`, to a weights file at `path`, atomically."""
    metadata = {
        "format": FORMAT,
        "version": FORMAT_VERSION,
        "library": __version__,
        "op": meaning.op,
        "extractor": meaning.extractor,
        "dimension": str(meaning.dimension),
        "limit": str(meaning.limit),
        "parameters": json.dumps([_as_data(one) for one in meaning.parameters], separators=(",", ":")),
        "about": json.dumps(dict(meaning.about), sort_keys=True),
    }
    write_safetensors(path, {name: np.asarray(value) for name, value in tensors.items()}, metadata)


def write_safetensors(path: Path, tensors: Mapping[str, NDArray[Any]], metadata: Mapping[str, str]) -> None:
    """Write to a temporary file and rename it, so that readers never see a partial file."""
    names = {dtype: name for name, dtype in DTYPES.items()}
    header: dict[str, Any] = {"__metadata__": dict(metadata)}
    end = 0
    for name, value in tensors.items():
        start, end = end, end + value.nbytes
        header[name] = {"dtype": names[value.dtype], "shape": list(value.shape), "data_offsets": [start, end]}
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    with beside.open("wb") as file:
        file.write(len(text).to_bytes(8, "little"))
        file.write(text)
        for value in tensors.values():
            file.write(np.ascontiguousarray(value).tobytes())
    beside.replace(path)


def _as_data(one: Parameter) -> dict[str, Any]:
    if isinstance(one, Categorical):
        return {"name": one.name, "values": list(one.values), "is_ladder": one.is_ladder}
    return {"name": one.name, "items": list(one.items)}


def _parameter(row: Mapping[str, Any]) -> Parameter:
    items: Sequence[str] | None = row.get("items")
    if items is not None:
        return Permutation(row["name"], tuple(items))
    return Categorical(row["name"], tuple(row["values"]), row["is_ladder"])
