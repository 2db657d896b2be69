"""Base of all feature extractors, which adds shape and nonzeros to an extractor's own output (WACO section 4.1.1).

The baselines that WACONet is compared with (section 5.3, Fig. 15) and one on O(nonzeros) statistics are here, too.
"""

from __future__ import annotations

import itertools
import math
from abc import ABC, abstractmethod
from collections import OrderedDict
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
from autosparse.tuner.features.pattern_vector import VECTOR_WIDTHS
from autosparse.tuner.research.collect.recipes import Recipe
from autosparse.tuner.research.generators.coordinates import Coordinates

from autosparse.core.dtypes import NarrowReal
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


IMAGE_SIZE: Final = 256
IMAGE_CHANNELS: Final = 32


class HumanFeature(Extractor):
    """Extractor of extents and number of nonzeros only."""

    def __init__(self, dimension: int = 2) -> None:
        super().__init__()
        self.dimension = dimension
        self._add_head(0)

    def observe(self, pattern: Coordinates) -> None:
        """Return None: the pattern's cells are not used."""

    def describe(self, seen: None) -> torch.Tensor:
        """Return no numbers, (1, 0)."""
        return torch.empty(1, 0, device=self.device)


class DenseConv(Extractor):
    """Extractor that applies an ordinary CNN to the pattern down-sampled to 256 x 256 (Zhao et al., PPoPP 2018).

    A pixel is log(1 + its nonzeros); a tensor has one image per pair of modes (as SpTFS, SC 2020). The layers are as in
    WACONet down to one pixel, all of them pooled, so that only the down-sampling differs.
    """

    def __init__(self, dimension: int = 2) -> None:
        super().__init__()
        self.dimension = dimension
        n_layers = IMAGE_SIZE.bit_length()
        layers = [torch.nn.Conv2d(dimension * (dimension - 1) // 2, IMAGE_CHANNELS, 5, padding=2)]
        layers += [torch.nn.Conv2d(IMAGE_CHANNELS, IMAGE_CHANNELS, 3, stride=2, padding=1) for _ in range(n_layers - 1)]
        self.layers = torch.nn.ModuleList(layers)
        self._add_head(IMAGE_CHANNELS * n_layers)

    def observe(self, pattern: Coordinates) -> torch.Tensor:
        """Return the images, (1, pairs of modes, 256, 256)."""
        return torch.from_numpy(images(pattern)).unsqueeze(0).to(self.device)

    def describe(self, seen: torch.Tensor) -> torch.Tensor:
        """Return the pooled results of all layers."""
        pooled, at = [], seen
        for layer in self.layers:
            at = torch.relu(layer(at))
            pooled.append(at.mean(dim=(2, 3)))
        return torch.cat(pooled, dim=1)


def images(pattern: Coordinates) -> np.ndarray:
    """Return log(1 + nonzeros) of 256 x 256 equal parts, one image per pair of modes: (pairs, 256, 256) float32."""
    places = [column * IMAGE_SIZE // extent for column, extent in zip(pattern.indices, pattern.shape, strict=True)]
    n_pixels = IMAGE_SIZE * IMAGE_SIZE
    counts = [
        np.bincount(one * IMAGE_SIZE + other, minlength=n_pixels).reshape(IMAGE_SIZE, IMAGE_SIZE)
        for one, other in itertools.combinations(places, 2)
    ]
    return np.log1p(np.stack(counts)).astype(NarrowReal)


class Statistics(Extractor):
    """Extractor with a small network on `Coordinates.vector`: row lengths, gaps, block fill, shared columns, ..."""

    def __init__(self, dimension: int = 2) -> None:
        super().__init__()
        self.dimension = dimension
        width = VECTOR_WIDTHS[dimension]
        self.statistics = torch.nn.Sequential(torch.nn.Linear(width, 128), torch.nn.ReLU(), torch.nn.Linear(128, 128))
        self._add_head(128)

    def observe(self, pattern: Coordinates) -> torch.Tensor:
        """Return the statistics, (1, width)."""
        return torch.from_numpy(pattern.vector()).unsqueeze(0).to(self.device)

    def describe(self, seen: torch.Tensor) -> torch.Tensor:
        """Return the network's output, (1, 128)."""
        described: torch.Tensor = torch.relu(self.statistics(seen))
        return described
