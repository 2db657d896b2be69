"""What every feature extractor has in common: shape and nonzeros beside what it sees of the pattern (WACO §4.1.1)."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, Final

import torch
from autosparse.tuner.generators.coordinates import Coordinates

EMBEDDING: Final = 128
"""Width of the embedding of a pattern (and of a program)."""
FACTS_WIDTH: Final = 32


@dataclass(frozen=True, eq=False)
class Observed:
    """What an extractor needs of one pattern: prepared once, used in every epoch."""

    facts: torch.Tensor  # (1, dimension + 1)
    seen: Any  # of the extractor's own kind: a Lattice, an image, a vector; None

    @property
    def n_bytes(self) -> int:
        """Memory held, for a bound on what is kept."""
        seen = self.seen
        return int(seen.nbytes if isinstance(seen, torch.Tensor) else seen.n_bytes if seen is not None else 0)


def shape_facts(pattern: Coordinates) -> torch.Tensor:
    """log2(1 + x) / 8 - 2 of the extents and the number of nonzeros, (1, dimension + 1): about -1 .. 1.

    The authors standardise the plain numbers by the means and deviations of their training set; these logarithms need
    no training set and tell 1,000 from 2,000 as well as 1,000,000 from 2,000,000.
    """
    numbers = (*pattern.shape, pattern.nnz)
    return torch.tensor([[math.log2(1 + number) / 8 - 2 for number in numbers]], dtype=torch.float32)


class Extractor(torch.nn.Module, ABC):
    """Pattern -> embedding, (1, EMBEDDING).

    A subclass calls `_add_head` with the width of what `describe` returns. ``feature`` and ``matrix_embedding`` are
    the names that the authors gave to the layers.
    """

    dimension: int

    def _add_head(self, width: int) -> None:
        self.feature = torch.nn.Sequential(
            torch.nn.Linear(self.dimension + 1, 64), torch.nn.ReLU(), torch.nn.Linear(64, FACTS_WIDTH)
        )
        self.matrix_embedding = torch.nn.Sequential(
            torch.nn.Linear(width + FACTS_WIDTH, 256), torch.nn.ReLU(), torch.nn.Linear(256, EMBEDDING)
        )

    def prepare(self, pattern: Coordinates) -> Observed:
        """Everything that does not depend on the weights."""
        if len(pattern.shape) != self.dimension:
            raise ValueError(f"a pattern of {len(pattern.shape)} dimensions for a network of {self.dimension}")
        return Observed(shape_facts(pattern).to(self.device), self.observe(pattern))

    @property
    def device(self) -> torch.device:
        """Where the weights are."""
        return next(self.parameters()).device

    def forward(self, observed: Observed) -> torch.Tensor:
        """The embedding of a pattern, (1, EMBEDDING)."""
        seen = torch.cat([self.describe(observed.seen), self.feature(observed.facts)], dim=1)
        embedding: torch.Tensor = self.matrix_embedding(seen)
        return embedding

    @abstractmethod
    def observe(self, pattern: Coordinates) -> Any:
        """What the extractor reads of a pattern."""

    @abstractmethod
    def describe(self, seen: Any) -> torch.Tensor:
        """Numbers learned from what `observe` returned, (1, width)."""
