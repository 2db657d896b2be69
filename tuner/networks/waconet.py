"""WACONet (WACO §4.1.1, Fig. 9) and the stride-1 network it is compared with (§5.3, Fig. 15)."""

from __future__ import annotations

import math
from typing import Any, Final

import torch
from autosparse.tuner.features.panels import FEATURE_LIMIT
from autosparse.tuner.generators.coordinates import Coordinates
from autosparse.tuner.networks.backends import TensorBackend, open_backend
from autosparse.tuner.networks.extractor import Extractor
from autosparse.tuner.networks.lattice import Lattice

CHANNELS: Final = 32
N_LAYERS: Final = 14
MINKOWSKI_CHANNELS: Final = 16
"""The paper too reduces MinkowskiNet's channels: without stride no layer has fewer cells than the first."""
N_BLOCKS: Final = 6
PRESENT: Final = 1 / 3
"""Share of a kernel's offsets at which real patterns have a neighbour, for the scale of the first weights."""


class WACONet(Extractor):
    """A 5^D sparse convolution, then thirteen 3^D ones of stride 2, 32 channels, ReLU after each.

    The means of all 14 results over their cells, side by side, describe the pattern: local structure from the early
    ones, global structure from the late ones. Input is the number 1 on each nonzero; of
    patterns with more than `limit` nonzeros, on those that `panels` picks.
    """

    def __init__(self, dimension: int = 2, backend: str = "own", limit: int = FEATURE_LIMIT) -> None:
        super().__init__()
        self.dimension, self.limit = dimension, limit
        self._backend: TensorBackend = open_backend(backend)
        for at in range(1, N_LAYERS + 1):
            first = at == 1
            layer = self._backend.convolution(
                1 if first else CHANNELS,
                CHANNELS,
                kernel_size=5 if first else 3,
                stride=1 if first else 2,
                dimension=dimension,
            )
            _initialise(layer)
            self.add_module(f"layer{at}", torch.nn.Sequential(layer, self._backend.rectifier()))
        self._add_head(CHANNELS * N_LAYERS)

    def observe(self, pattern: Coordinates) -> Lattice:
        """The nonzeros that `panels` picks."""
        return lattice_of(pattern.looked_at(self.limit)).to(self.device)

    def describe(self, seen: Lattice) -> torch.Tensor:
        """The pooled results of all layers, (1, 448)."""
        return torch.cat([self._backend.global_average(one) for one in self.layers_of(seen)], dim=1)

    def layers_of(self, seen: Lattice) -> list[Any]:
        """The result of every layer, in the backend's type."""
        at = self._backend.ones(seen)
        results = []
        for name in range(1, N_LAYERS + 1):
            at = self.get_submodule(f"layer{name}")(at)
            results.append(at)
        return results


class MinkowskiNet(Extractor):
    """A 5^D convolution, then residual blocks of two 3^D ones, all of stride 1; only the last result is pooled.

    What the paper argues against (Fig. 8): between nonzeros that lie apart no information flows.
    """

    def __init__(self, dimension: int = 2, backend: str = "own", limit: int = FEATURE_LIMIT) -> None:
        super().__init__()
        self.dimension, self.limit = dimension, limit
        self._backend: TensorBackend = open_backend(backend)
        self.first = self._convolution(1, 5)
        self.blocks = torch.nn.ModuleList(
            torch.nn.ModuleList([self._convolution(MINKOWSKI_CHANNELS, 3), self._convolution(MINKOWSKI_CHANNELS, 3)])
            for _ in range(N_BLOCKS)
        )
        self._rectify = self._backend.rectifier()
        self._add_head(MINKOWSKI_CHANNELS)

    def _convolution(self, n_in: int, kernel_size: int) -> torch.nn.Module:
        layer = self._backend.convolution(
            n_in, MINKOWSKI_CHANNELS, kernel_size=kernel_size, stride=1, dimension=self.dimension
        )
        _initialise(layer)
        return layer

    def observe(self, pattern: Coordinates) -> Lattice:
        """The nonzeros that `panels` picks."""
        return lattice_of(pattern.looked_at(self.limit)).to(self.device)

    def describe(self, seen: Lattice) -> torch.Tensor:
        """The mean of the last layer, (1, MINKOWSKI_CHANNELS)."""
        at = self._rectify(self.first(self._backend.ones(seen)))
        for block in self.blocks:
            assert isinstance(block, torch.nn.ModuleList)
            at = self._rectify(self._backend.add(at, block[1](self._rectify(block[0](at)))))
        return self._backend.global_average(at)


def lattice_of(pattern: Coordinates) -> Lattice:
    """The cells that hold nonzeros."""
    cells = torch.stack([torch.from_numpy(column) for column in pattern.indices], dim=1)
    return Lattice.of(cells, pattern.shape)


def _initialise(layer: torch.nn.Module) -> None:
    """Normal, scaled for the neighbours that are there: a third of the offsets (the authors: He et al.'s, for all).

    Scaled for all offsets, sparse patterns lose half of the signal in every layer, and the last ones see 1e-5 to 1e-8
    where the published weights, once trained, keep 1e-2 to 1e-1 throughout; so do these from the start.
    """
    kernel = layer.kernel
    assert isinstance(kernel, torch.nn.Parameter)
    n_offsets, _, n_out = kernel.shape
    torch.nn.init.normal_(kernel, std=math.sqrt(2.0 / (n_offsets * PRESENT * n_out)))
