"""WACONet (WACO section 4.1.1, Fig. 9) and the stride-1 network that it is compared with (section 5.3, Fig. 15)."""

from __future__ import annotations

import math
from typing import Any, Final

import torch
from autosparse.tuner.features.panels import WHOLE
from autosparse.tuner.research.generators.coordinates import Coordinates
from autosparse.tuner.research.networks.convolution import TensorBackend, open_backend
from autosparse.tuner.research.networks.extractor import Extractor
from autosparse.tuner.research.networks.lattice import Lattice

CHANNELS: Final = 32
N_LAYERS: Final = 14
MINKOWSKI_CHANNELS: Final = 16
"""Channels of MinkowskiNet, reduced as in the paper: without strides, no layer has fewer cells than the first."""
N_BLOCKS: Final = 6
PRESENT: Final = 1 / 3
"""Approximate share of a kernel's offsets at which real patterns have a neighbour; scales the initial weights."""


class WACONet(Extractor):
    """Extractor with a 5^D sparse convolution and thirteen 3^D ones of stride 2, 32 channels, each followed by ReLU.

    The means of all 14 results over their cells are concatenated: early ones describe local structure, late ones global
    structure. The input is the number 1 on each nonzero. Of patterns with more than `limit` nonzeros, only those
    sampled by `panels` are read.
    """

    def __init__(self, dimension: int = 2, backend: str = "own", limit: int = WHOLE) -> None:
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
        """Return the lattice of the nonzeros sampled by `panels`."""
        return lattice_of(pattern.looked_at(self.limit)).to(self.device)

    def describe(self, seen: Lattice) -> torch.Tensor:
        """Return the pooled results of all layers, (1, 448)."""
        return torch.cat([self._backend.global_average(one) for one in self.layers_of(seen)], dim=1)

    def layers_of(self, seen: Lattice) -> list[Any]:
        """Return the result of every layer, in the backend's type."""
        at = self._backend.ones(seen)
        results = []
        for name in range(1, N_LAYERS + 1):
            at = self.get_submodule(f"layer{name}")(at)
            results.append(at)
        return results


class MinkowskiNet(Extractor):
    """Extractor with a 5^D convolution and residual blocks of two 3^D ones, all of stride 1; the last result is pooled.

    The paper's counterexample (Fig. 8): no information flows between nonzeros that are far apart.
    """

    def __init__(self, dimension: int = 2, backend: str = "own", limit: int = WHOLE) -> None:
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
        """Return the lattice of the nonzeros sampled by `panels`."""
        return lattice_of(pattern.looked_at(self.limit)).to(self.device)

    def describe(self, seen: Lattice) -> torch.Tensor:
        """Return the mean of the last layer, (1, MINKOWSKI_CHANNELS)."""
        at = self._rectify(self.first(self._backend.ones(seen)))
        for block in self.blocks:
            assert isinstance(block, torch.nn.ModuleList)
            at = self._rectify(self._backend.add(at, block[1](self._rectify(block[0](at)))))
        return self._backend.global_average(at)


def lattice_of(pattern: Coordinates) -> Lattice:
    """Return the lattice of the cells that hold nonzeros."""
    cells = torch.stack([torch.from_numpy(column) for column in pattern.indices], dim=1)
    return Lattice.of(cells, pattern.shape)


def _initialise(layer: torch.nn.Module) -> None:
    """Initialise normally, scaled for the third of the offsets that have a neighbour (the authors: for all offsets).

    Scaled for all offsets, the signal of sparse patterns halves in every layer, and the last layers see 1e-5 to 1e-8.
    The published trained weights keep 1e-2 to 1e-1 in all layers, and this scaling does so from the start.
    """
    kernel = layer.kernel
    assert isinstance(kernel, torch.nn.Parameter)
    n_offsets, _, n_out = kernel.shape
    torch.nn.init.normal_(kernel, std=math.sqrt(2.0 / (n_offsets * PRESENT * n_out)))
