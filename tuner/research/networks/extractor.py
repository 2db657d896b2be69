"""Base of all feature extractors, which adds shape and nonzeros to an extractor's own output (WACO section 4.1.1)."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections import OrderedDict
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import torch
from autosparse.tuner.research.collect.recipes import Recipe
from autosparse.tuner.research.generators.coordinates import Coordinates

from autosparse.scalar.tensors import narrow_real

EMBEDDING: Final = 128
"""Width of the embedding of a pattern and of a program."""
FACTS_WIDTH: Final = 32
DEFAULT_BYTES: Final = 4 << 30
"""Default limit of a cache of patterns in the extractors' input form."""


@dataclass(frozen=True, eq=False)
class Observed:
    """Input of a feature extractor for one pattern, prepared once and used in every epoch."""

    facts: torch.Tensor  # (1, dimension + 1)
    seen: Any  # type depends on the extractor: a Lattice, an image, a vector, or None

    @property
    def n_bytes(self) -> int:
        """Return the bytes held, for the limit of a cache."""
        seen = self.seen
        return int(seen.nbytes if isinstance(seen, torch.Tensor) else seen.n_bytes if seen is not None else 0)


def shape_facts(pattern: Coordinates) -> torch.Tensor:
    """Return log2(1 + x) / 8 - 2 of the extents and the number of nonzeros, (1, dimension + 1), about -1 .. 1.

    The authors standardise the plain numbers by the statistics of their training set. These logarithms need no training
    set, and resolve 1,000 from 2,000 as well as 1,000,000 from 2,000,000.
    """
    numbers = (*pattern.shape, pattern.nnz)
    return torch.tensor([[math.log2(1 + number) / 8 - 2 for number in numbers]], dtype=narrow_real)


class Extractor(torch.nn.Module, ABC):
    """Base of networks that compute the embedding of a pattern, (1, EMBEDDING).

    A subclass calls `_add_head` with the output width of `describe`. ``feature`` and ``matrix_embedding`` are the
    authors' names of these layers.
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
        """Return everything that does not depend on the weights."""
        if len(pattern.shape) != self.dimension:
            raise ValueError(f"a pattern of {len(pattern.shape)} dimensions for a network of {self.dimension}")
        return Observed(shape_facts(pattern).to(self.device), self.observe(pattern))

    @property
    def device(self) -> torch.device:
        """Return the device of the weights."""
        return next(self.parameters()).device

    def forward(self, observed: Observed) -> torch.Tensor:
        """Return the embedding of a pattern, (1, EMBEDDING)."""
        seen = torch.cat([self.describe(observed.seen), self.feature(observed.facts)], dim=1)
        embedding: torch.Tensor = self.matrix_embedding(seen)
        return embedding

    @abstractmethod
    def observe(self, pattern: Coordinates) -> Any:
        """Return the extractor's input from a pattern."""

    @abstractmethod
    def describe(self, seen: Any) -> torch.Tensor:
        """Return the extractor's output for the result of `observe`, (1, width)."""


class Observations:
    """Cache that returns an extractor's input for a recipe, and evicts the least recently used ones beyond a limit.

    `folder` holds the real matrices that recipes name; a missing one raises FileNotFoundError.
    """

    def __init__(self, extractor: Extractor, folder: Path | None, *, limit_bytes: int = DEFAULT_BYTES) -> None:
        self._extractor, self._folder, self._limit_bytes = extractor, folder, limit_bytes
        self._kept: OrderedDict[Recipe, Observed] = OrderedDict()
        self._sizes: dict[Recipe, int] = {}

    def __call__(self, recipe: Recipe) -> Observed:
        """Return the extractor's input for `recipe`, made or cached."""
        found = self._kept.get(recipe)
        if found is None:
            found = self._extractor.prepare(recipe.make(self._folder))
            self._make_room()
            self._kept[recipe] = found
        self._kept.move_to_end(recipe)
        return found

    def _make_room(self) -> None:
        # The last entry has grown since it was added: its first use created the maps of its layers.
        for recipe in list(self._kept)[-1:]:
            self._sizes[recipe] = self._kept[recipe].n_bytes
        while self._kept and sum(self._sizes.values()) > self._limit_bytes:
            recipe, _ = self._kept.popitem(last=False)
            del self._sizes[recipe]
