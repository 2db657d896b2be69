"""File of a trained cost model as NumPy arrays, for inference without torch.

`tuner.research.training.weights` writes these files; docs/training.md describes them.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
from autosparse.tuner import registry
from autosparse.tuner.learned.safetensors import read_safetensors
from autosparse.tuner.space.joint import ABSENT, JointSpace
from autosparse.tuner.space.own import own_space
from autosparse.tuner.space.template import Categorical, Parameter, Permutation, TemplateSpace
from numpy.typing import NDArray

from autosparse.core.dtypes import NarrowReal
from autosparse.core.values import dataclass, field
from autosparse.errors import RecordError

FORMAT: Final = "autosparse-cost-model"
FORMAT_VERSION: Final = "2"
"""Version of the file format; from version 2 on, trees read a setting and analytic ratios, and have a portfolio."""
Weights = Mapping[str, NDArray[NarrowReal]]


@dataclass(frozen=True, eq=False)
class LearnedWeights:
    """The tensors of a cost model and their metadata."""

    name: str  # 16 hex digits over the file; graphs and features refer to it
    op: str
    extractor: str
    dimension: int
    limit: int  # maximum number of entries that the extractor reads
    space: JointSpace = field(repr=False)
    about: Mapping[str, Any] = field(repr=False)
    tensors: Weights = field(repr=False)

    @classmethod
    def read(cls, path: Path) -> LearnedWeights:
        """Read a model; raise RecordError for another file or for schedule spaces of another version."""
        tensors, metadata = read_safetensors(path)
        said = (metadata.get("format"), metadata.get("version"))
        if said != (FORMAT, FORMAT_VERSION):
            raise RecordError.broken(path.name, reason=f"holds {said}, not a cost model of version {FORMAT_VERSION}")
        try:
            parameters = [_parameter(row) for row in json.loads(metadata["parameters"])]
            facts = (metadata["op"], metadata["extractor"], int(metadata["dimension"]), int(metadata["limit"]))
            about = json.loads(metadata.get("about", "{}"))
        except (KeyError, ValueError, TypeError) as error:
            raise RecordError.broken(path.name, reason=f"its metadata are incomplete or invalid: {error!r}") from error
        space = _space(path.name, algorithm_of(facts[0]), parameters)
        name = hashlib.blake2b(path.read_bytes(), digest_size=8).hexdigest()
        return cls(name, *facts, space, about, tensors)


def algorithm_of(op: str) -> str:
    """Return the algorithm of an operation as `collect` names it: "spmm" of "spmm32"."""
    return re.sub(r"\d+$", "", op)


def _parameter(row: Mapping[str, Any]) -> Parameter:
    if row.get("items") is not None:
        return Permutation(row["name"], tuple(row["items"]))
    return Categorical(row["name"], tuple(row["values"]), row["is_ladder"])


def _space(name: str, algorithm: str, parameters: Sequence[Parameter]) -> JointSpace:
    """Return the JointSpace that model `name` codes with `parameters`; RecordError if this version's spaces differ."""
    values = {one.name: one.values for one in parameters if isinstance(one, Categorical)}
    members: list[TemplateSpace] = []
    for member in values.get("space", ()):
        threads = tuple(int(n) for n in values.get(f"{member}.parnum", ()) if n != ABSENT)
        if member == f"own-{algorithm}":
            members.append(own_space(algorithm, threads=threads))
        elif member == f"waco-{algorithm}" and len(threads) == 2:
            members.append(registry.load("space", "waco")(algorithm, threads=(threads[0], threads[1])))
    found = JointSpace(tuple(members))
    if not members or tuple(parameters) != found.parameters:
        raise RecordError.broken(name, reason="was trained for other spaces of schedules: train again")
    return found


def linear(weights: Weights, layer: str, x: NDArray[NarrowReal]) -> NDArray[NarrowReal]:
    """Return ``x @ W' + b`` of one layer; x is (n, in) or (in,)."""
    result: NDArray[NarrowReal] = x @ weights[f"{layer}.weight"].T + weights[f"{layer}.bias"]
    return result


def rectified(x: NDArray[NarrowReal]) -> NDArray[NarrowReal]:
    """Return max(0, x)."""
    result: NDArray[NarrowReal] = np.maximum(x, NarrowReal(0.0))
    return result
