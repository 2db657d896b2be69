"""File of a trained network in safetensors format: weights by the authors' names, and their meaning as metadata."""

from __future__ import annotations

from pathlib import Path

from autosparse.tuner.learned.predict import PORTFOLIO
from autosparse.tuner.learned.safetensors import read_safetensors
from autosparse.tuner.learned.weights import FORMAT, FORMAT_VERSION
from autosparse.tuner.research.networks.cost_model import NetworkCostModel
from autosparse.tuner.research.training.meaning import Meaning, write_model

from autosparse.core.dtypes import NarrowReal
from autosparse.errors import RecordError

__all__ = ["Meaning", "read_weights", "write_weights"]


def write_weights(path: Path, model: NetworkCostModel, meaning: Meaning) -> None:
    """Write the weights of `model`, with the metadata `meaning`, to a weights file at `path`, atomically."""
    write_model(path, {name: value.astype(NarrowReal) for name, value in model.weights().items()}, meaning)


def read_weights(path: Path, *, backend: str = "own") -> tuple[NetworkCostModel, Meaning]:
    """Read the model in a file; raise RecordError for other contents or another version."""
    tensors, metadata = read_safetensors(path)
    said = (metadata.get("format"), metadata.get("version"))
    if said != (FORMAT, FORMAT_VERSION):
        raise RecordError.broken(path.name, reason=f"holds {said}, not a cost model of version {FORMAT_VERSION}")
    meaning = Meaning.of(metadata)
    model = meaning.make_model(backend=backend)
    model.load_weights({name: value for name, value in tensors.items() if name != PORTFOLIO})
    return model.eval(), meaning
