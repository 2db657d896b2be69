"""Learned cost model (WACO section 4.1, Fig. 6): feature extractor, program embedder, runtime predictor.

The extractor runs once per pattern and the embedder once per program. Only the predictor runs for every pair, so that a
search over embedded programs needs nothing else. Lower costs are faster; they rank and are not seconds (section 4.1.3).

The embedder (section 4.1.2, Fig. 11) makes 128 numbers from the parameters of a SuperSchedule. A categorical parameter
passes through a lookup table, and a permutation matrix through linear layers with ReLU. The concatenated results pass
through linear layers again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

import numpy as np
import torch
from autosparse.tuner.features.panels import WHOLE
from autosparse.tuner.research.networks.extractor import (
    EMBEDDING,
    DenseConv,
    Extractor,
    HumanFeature,
    Observed,
    Statistics,
)
from autosparse.tuner.research.networks.waconet import MinkowskiNet, WACONet
from autosparse.tuner.space.template import Categorical, Code, Parameter
from numpy.typing import NDArray

from autosparse.core.dtypes import NarrowReal, ProgramCode
from autosparse.errors import OptionError

TABLE_WIDTH: Final = 32


def n_columns(parameter: Parameter) -> int:
    """Return the number of integers of a parameter in a row of `flat_codes`: one, or one per permutation position."""
    return 1 if isinstance(parameter, Categorical) else len(parameter.items)


def flat_codes(codes: Iterable[Code], parameters: Sequence[Parameter]) -> NDArray[ProgramCode]:
    """Return codes of `TemplateSpace.encode` as rows of integers, (n, columns of all parameters)."""
    rows = [[n for one in code for n in (one if isinstance(one, tuple) else (one,))] for code in codes]
    width = sum(n_columns(parameter) for parameter in parameters)
    return np.array(rows, dtype=ProgramCode).reshape(len(rows), width)


class ProgramEmbedder(torch.nn.Module):
    """Network from rows of `flat_codes` to (n, EMBEDDING).

    The value -1 in a permutation means that the schedule has no such parameter: its row of the matrix is 0.
    `plain_permutations` selects one linear layer without ReLU, as in the weights that the authors published, instead of
    two with ReLU.
    """

    def __init__(self, parameters: Sequence[Parameter], *, plain_permutations: bool = False) -> None:
        super().__init__()
        self.parameters_read = tuple(parameters)
        # A list, because names of parameters may collide with attributes of a module.
        self.tables = torch.nn.ModuleList(_table(parameter, plain=plain_permutations) for parameter in parameters)
        self.schedule_embedding = torch.nn.Sequential(
            torch.nn.Linear(TABLE_WIDTH * len(parameters), EMBEDDING), torch.nn.ReLU(), torch.nn.Linear(128, EMBEDDING)
        )

    def forward(self, codes: torch.Tensor) -> torch.Tensor:
        """Return the embeddings of the programs, (n, EMBEDDING)."""
        read, at = [], 0
        for parameter, table in zip(self.parameters_read, self.tables, strict=True):
            width = n_columns(parameter)
            columns = codes[:, at : at + width].long()
            is_categorical = isinstance(parameter, Categorical)
            read.append(table(columns[:, 0] if is_categorical else permutation_matrices(columns)))
            at += width
        embedding: torch.Tensor = self.schedule_embedding(torch.cat(read, dim=1))
        return embedding


def permutation_matrices(places: torch.Tensor) -> torch.Tensor:
    """Return permutation matrices, (n, m) -> (n, m * m): row p has a 1 at the item of position p (-1: no 1)."""
    n_programs, n_items = places.shape
    one_hot = torch.nn.functional.one_hot(places + 1, n_items + 1)[:, :, 1:]
    return one_hot.reshape(n_programs, n_items * n_items).float()


def _table(parameter: Parameter, *, plain: bool) -> torch.nn.Module:
    if isinstance(parameter, Categorical):
        return torch.nn.Embedding(parameter.size, TABLE_WIDTH)
    n_cells = len(parameter.items) ** 2
    if plain:
        return torch.nn.Linear(n_cells, TABLE_WIDTH)
    return torch.nn.Sequential(
        torch.nn.Linear(n_cells, 64), torch.nn.ReLU(), torch.nn.Linear(64, TABLE_WIDTH), torch.nn.ReLU()
    )


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
