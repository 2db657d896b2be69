"""Learned cost model (WACO section 4.1, Fig. 6): feature extractor, program embedder, runtime predictor.

The extractor runs once per pattern and the embedder once per program. Only the predictor runs for every pair, so that a
search over embedded programs needs nothing else. Lower costs are faster; they rank and are not seconds (section 4.1.3).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

import numpy as np
import torch
from autosparse.tuner.features.panels import WHOLE
from autosparse.tuner.research.networks.baselines import DenseConv, HumanFeature, Statistics
from autosparse.tuner.research.networks.embedder import ProgramEmbedder
from autosparse.tuner.research.networks.extractor import EMBEDDING, Extractor, Observed
from autosparse.tuner.research.networks.waconet import MinkowskiNet, WACONet
from numpy.typing import NDArray

from autosparse.core.dtypes import NarrowReal
from autosparse.errors import OptionError

EXTRACTORS: Final[Mapping[str, Callable[[int, str, int], Extractor]]] = {
    "waconet": WACONet,
    "minkowski": MinkowskiNet,
    "dense": lambda dimension, backend, limit: DenseConv(dimension),
    "human": lambda dimension, backend, limit: HumanFeature(dimension),
    "statistics": lambda dimension, backend, limit: Statistics(dimension),
}
"""Command-line name -> factory of an extractor of patterns of a dimension; backend and limit are WACONet's."""


def make_extractor(name: str, dimension: int, backend: str = "own", limit: int = WHOLE) -> Extractor:
    """Return a new extractor by its name in `EXTRACTORS`."""
    if name not in EXTRACTORS:
        raise OptionError.bad_value("extractor", name, domain=f"one of {', '.join(EXTRACTORS)}", source="argument")
    return EXTRACTORS[name](dimension, backend, limit)


class NetworkCostModel(torch.nn.Module):
    """Network from (pattern, programs) to the predicted cost of each program."""

    def __init__(self, extractor: Extractor, program: ProgramEmbedder) -> None:
        super().__init__()
        self.extractor, self.program = extractor, program
        self.final = torch.nn.Sequential(
            torch.nn.Linear(2 * EMBEDDING, 128),
            torch.nn.ReLU(),
            torch.nn.Linear(128, 64),
            torch.nn.ReLU(),
            torch.nn.Linear(64, 1),
        )

    def forward(self, observed: Observed, codes: torch.Tensor) -> torch.Tensor:
        """Return the costs of the programs `codes` (rows of `flat_codes`) on one pattern, (n,)."""
        return self.predict(self.extractor(observed), self.program(codes))

    def predict(self, pattern: torch.Tensor, programs: torch.Tensor) -> torch.Tensor:
        """Return the costs, (n,), from an embedded pattern (1, EMBEDDING) and embedded programs (n, EMBEDDING)."""
        costs: torch.Tensor = self.final(torch.cat([pattern.expand(len(programs), -1), programs], dim=1))
        return costs.squeeze(1)

    def weights(self) -> dict[str, NDArray[NarrowReal]]:
        """Return all weights by the authors' names: ``layer1.0.kernel``, ``isplit.weight``, ``final.4.bias``, ..."""
        names = self._names()
        assert len(set(names.values())) == len(names), "two weights have one name"
        return {names[name]: tensor.detach().cpu().numpy() for name, tensor in self.state_dict().items()}

    def load_weights(self, weights: Mapping[str, NDArray[NarrowReal]]) -> None:
        """Load the result of `weights()`; raise KeyError or ValueError for other names or shapes."""
        names = {short: name for name, short in self._names().items()}
        if set(names) != set(weights):
            wrong = sorted(set(names) ^ set(weights))
            raise KeyError(f"weights of another model: {len(wrong)} names missing or unknown: {', '.join(wrong[:8])}")
        for name, value in weights.items():
            wanted = tuple(self.state_dict()[names[name]].shape)
            if value.shape != wanted:
                raise ValueError(f"{name} has shape {value.shape}, but this model has {wanted} there")
        self.load_state_dict({names[name]: torch.from_numpy(np.array(value)) for name, value in weights.items()})

    def _names(self) -> dict[str, str]:
        """Return a mapping from the names of this module's tensors to their names in weights files."""
        prefixes = {"extractor.": "", "program.schedule_": "schedule_", "final.": "final."}
        for at, parameter in enumerate(self.program.parameters_read):
            prefixes[f"program.tables.{at}."] = f"{parameter.name}."
        return {
            name: short + name.removeprefix(prefix)
            for name in self.state_dict()
            for prefix, short in prefixes.items()
            if name.startswith(prefix)
        }
