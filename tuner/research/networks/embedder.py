"""Program embedder (WACO section 4.1.2, Fig. 11): parameters of a SuperSchedule -> an embedding of 128 numbers.

A categorical parameter passes through a lookup table, and a permutation matrix through linear layers with ReLU. The
concatenated results pass through linear layers again.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

import numpy as np
import torch
from autosparse.tuner.research.networks.extractor import EMBEDDING
from autosparse.tuner.space.template import Categorical, Code, Parameter
from numpy.typing import NDArray

from autosparse.core.dtypes import ProgramCode

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
