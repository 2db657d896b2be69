"""Checkpoint of a training run in one file, written atomically: weights, Adam's moments, history."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from autosparse.tuner.learned.safetensors import read_safetensors
from autosparse.tuner.research.networks.cost_model import NetworkCostModel
from autosparse.tuner.research.training.meaning import write_safetensors
from numpy.typing import NDArray

from autosparse.errors import OptionError

MOMENTS = ("step", "exp_avg", "exp_avg_sq")


@dataclass(frozen=True, eq=False)
class Checkpoint:
    """State of an interrupted training: tensors of model and optimizer by name, and one dictionary per epoch."""

    tensors: Mapping[str, NDArray[Any]]
    history: Sequence[dict[str, Any]]

    @classmethod
    def of(cls, model: NetworkCostModel, optimizer: torch.optim.Adam, history: Sequence[dict[str, Any]]) -> Checkpoint:
        """Return the present state of model, optimizer and history."""
        tensors = {f"weight.{name}": value for name, value in model.weights().items()}
        for at, moments in optimizer.state_dict()["state"].items():
            for name in MOMENTS:
                tensors[f"adam.{at}.{name}"] = moments[name].detach().cpu().numpy()
        return cls(tensors, history)

    def restore(self, model: NetworkCostModel, optimizer: torch.optim.Adam) -> None:
        """Restore the state of model and optimizer."""
        weights = {name[len("weight.") :]: one for name, one in self.tensors.items() if name.startswith("weight.")}
        model.load_weights(weights)
        state: dict[int, dict[str, torch.Tensor]] = {}
        for name, value in self.tensors.items():
            if name.startswith("adam."):
                _, at, moment = name.split(".")
                state.setdefault(int(at), {})[moment] = torch.from_numpy(np.array(value))
        optimizer.load_state_dict({"state": state, "param_groups": optimizer.state_dict()["param_groups"]})


def write_checkpoint(path: Path, state: Checkpoint, identity: Mapping[str, Any]) -> None:
    """Write to a temporary file and rename it. `identity` identifies the run."""
    metadata = {"identity": json.dumps(identity, sort_keys=True), "history": json.dumps(list(state.history))}
    write_safetensors(path, state.tensors, metadata)


def read_checkpoint(path: Path, identity: Mapping[str, Any]) -> Checkpoint:
    """Return the state in `path`; raise OptionError when it belongs to a run with other settings or data."""
    tensors, metadata = read_safetensors(path)
    stored = json.loads(metadata["identity"])
    other = sorted(name for name in {*stored, *identity} if stored.get(name) != identity.get(name))
    if other:
        said = ", ".join(f"{name}={stored.get(name)!r} (now {identity.get(name)!r})" for name in other)
        raise OptionError.other_run(path, said)
    return Checkpoint(tensors, json.loads(metadata["history"]))
