"""Sparse-convolution backend by MinkowskiEngine (Choy et al. 2019), which WACO's authors used.

Its results may be wrong for coordinates above 2^24, because it divides them in single precision.
"""

from __future__ import annotations

import collections
import collections.abc
import importlib
from typing import Any, Final

import torch
from autosparse.tuner.research.networks.lattice import Lattice

from autosparse.errors import MissingExtraError

HOW: Final = 'build it as docs/training.md says, or use backend="own", which computes the same'


def _load() -> Any:  # Any: a module without types
    # MinkowskiEngine 0.5.4 uses the name that Python 3.10 removed.
    collections.Sequence = collections.abc.Sequence  # type: ignore[attr-defined]
    try:
        return importlib.import_module("MinkowskiEngine")
    except ImportError as error:
        raise MissingExtraError.by_hand("MinkowskiEngine", purpose='backend="minkowski"', how=HOW) from error


class MinkowskiBackend:
    """Backend of MinkowskiEngine's layers. The output cells of a strided layer have an unspecified order."""

    def __init__(self) -> None:
        self._engine = _load()

    def convolution(self, n_in: int, n_out: int, *, kernel_size: int, stride: int, dimension: int) -> torch.nn.Module:
        """Return a convolution layer; see `TensorBackend.convolution`."""
        layer: torch.nn.Module = self._engine.MinkowskiConvolution(
            n_in, n_out, kernel_size=kernel_size, stride=stride, dimension=dimension
        )
        return layer

    def rectifier(self) -> torch.nn.Module:
        """Return a layer that computes max(0, x)."""
        layer: torch.nn.Module = self._engine.MinkowskiReLU()
        return layer

    def ones(self, lattice: Lattice) -> Any:
        """Return the number 1 on every cell; see `TensorBackend.ones`."""
        cells = lattice.coordinates.int()
        batch, values = cells.new_zeros(len(cells), 1), torch.ones(len(cells), 1, device=cells.device)
        return self._engine.SparseTensor(features=values, coordinates=torch.cat([batch, cells], dim=1))

    def add(self, one: Any, other: Any) -> Any:
        """Return the sum of two results on the same cells."""
        return one + other

    def global_average(self, features: Any) -> torch.Tensor:
        """Return the mean over the cells, (1, channels)."""
        values: torch.Tensor = features.F
        return values.mean(dim=0, keepdim=True)
