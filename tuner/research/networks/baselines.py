"""Baseline extractors that WACONet is compared with (WACO section 5.3, Fig. 15), and one on O(nonzeros) statistics."""

from __future__ import annotations

import itertools
from typing import Final

import numpy as np
import torch
from autosparse.tuner.features.pattern_vector import VECTOR_WIDTHS
from autosparse.tuner.research.generators.coordinates import Coordinates
from autosparse.tuner.research.networks.extractor import Extractor

from autosparse.core.dtypes import NarrowReal

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
