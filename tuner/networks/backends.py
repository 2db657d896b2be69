"""The two sparse convolutions that a network can be built from, interchangeable to the names of their weights."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any, Final, Protocol

import torch
from autosparse.tuner.networks.convolution import Rectify, SparseConvolution, SparseFeatures, global_average
from autosparse.tuner.networks.lattice import Lattice

from autosparse.errors import OptionError


class TensorBackend(Protocol):
    """Layers, and the tensors that go through them (`Any`: each backend has a type of its own)."""

    def convolution(self, n_in: int, n_out: int, *, kernel_size: int, stride: int, dimension: int) -> torch.nn.Module:
        """A layer with the parameter ``kernel``, (kernel_size^dimension, n_in, n_out), and no bias."""

    def rectifier(self) -> torch.nn.Module:
        """max(0, x)."""

    def ones(self, lattice: Lattice) -> Any:
        """The number 1 on every cell, (n cells, 1), as the layers take it."""

    def add(self, one: Any, other: Any) -> Any:
        """The sum of two results on the same cells."""

    def global_average(self, features: Any) -> torch.Tensor:
        """Mean over the cells, (1, channels)."""


class OwnBackend:
    """Ours: PyTorch alone, on any device."""

    def convolution(self, n_in: int, n_out: int, *, kernel_size: int, stride: int, dimension: int) -> torch.nn.Module:
        """See Backend."""
        return SparseConvolution(n_in, n_out, kernel_size=kernel_size, stride=stride, dimension=dimension)

    def rectifier(self) -> torch.nn.Module:
        """See Backend."""
        return Rectify()

    def ones(self, lattice: Lattice) -> SparseFeatures:
        """See Backend."""
        return SparseFeatures.ones(lattice)

    def add(self, one: SparseFeatures, other: SparseFeatures) -> SparseFeatures:
        """See Backend."""
        return SparseFeatures(one.lattice, one.values + other.values)

    def global_average(self, features: SparseFeatures) -> torch.Tensor:
        """See Backend."""
        return global_average(features)


BACKENDS: Final[Mapping[str, str]] = {
    "own": "autosparse.tuner.networks.backends:OwnBackend",
    "minkowski": "autosparse.tuner.networks.minkowski:MinkowskiBackend",
}
"""Name -> class; a module is imported when its backend is asked for."""


def open_backend(name: str) -> TensorBackend:
    """The backend of that name; MissingExtraError when what it needs is not installed."""
    if name not in BACKENDS:
        raise OptionError.bad_value("backend", name, domain=f"one of {', '.join(BACKENDS)}", source="argument")
    module, _, kind = BACKENDS[name].partition(":")
    backend: TensorBackend = getattr(importlib.import_module(module), kind)()
    return backend
