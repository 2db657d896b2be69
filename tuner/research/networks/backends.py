"""Sparse-convolution backends of the networks, interchangeable down to the names of their weights."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any, Final, Protocol

import torch
from autosparse.tuner.research.networks.convolution import Rectify, SparseConvolution, SparseFeatures, global_average
from autosparse.tuner.research.networks.lattice import Lattice

from autosparse.errors import OptionError


class TensorBackend(Protocol):
    """Interface of an implementation of sparse convolution layers.

    Tensors between layers are `Any`, since each backend has its own type.
    """

    def convolution(self, n_in: int, n_out: int, *, kernel_size: int, stride: int, dimension: int) -> torch.nn.Module:
        """Return a layer with the parameter ``kernel``, (kernel_size^dimension, n_in, n_out), and no bias."""

    def rectifier(self) -> torch.nn.Module:
        """Return a layer that computes max(0, x)."""

    def ones(self, lattice: Lattice) -> Any:
        """Return the number 1 on every cell, (n cells, 1), as input of the layers."""

    def add(self, one: Any, other: Any) -> Any:
        """Return the sum of two results on the same cells."""

    def global_average(self, features: Any) -> torch.Tensor:
        """Return the mean over the cells, (1, channels)."""


class OwnBackend:
    """Backend in plain PyTorch, for any device; its layers take and return `SparseFeatures`."""

    def convolution(self, n_in: int, n_out: int, *, kernel_size: int, stride: int, dimension: int) -> torch.nn.Module:
        """Return a convolution layer; see `TensorBackend.convolution`."""
        return SparseConvolution(n_in, n_out, kernel_size=kernel_size, stride=stride, dimension=dimension)

    def rectifier(self) -> torch.nn.Module:
        """Return a layer that computes max(0, x)."""
        return Rectify()

    def ones(self, lattice: Lattice) -> SparseFeatures:
        """Return the number 1 on every cell; see `TensorBackend.ones`."""
        return SparseFeatures.ones(lattice)

    def add(self, one: SparseFeatures, other: SparseFeatures) -> SparseFeatures:
        """Return the sum of two results on the same cells."""
        return SparseFeatures(one.lattice, one.values + other.values)

    def global_average(self, features: SparseFeatures) -> torch.Tensor:
        """Return the mean over the cells, (1, channels)."""
        return global_average(features)


BACKENDS: Final[Mapping[str, str]] = {
    "own": "autosparse.tuner.research.networks.backends:OwnBackend",
    "minkowski": "autosparse.tuner.research.networks.minkowski:MinkowskiBackend",
}
"""Name -> class; the module is imported when its backend is opened."""


def open_backend(name: str) -> TensorBackend:
    """Return the backend of that name; raise MissingExtraError when its package is not installed."""
    if name not in BACKENDS:
        raise OptionError.bad_value("backend", name, domain=f"one of {', '.join(BACKENDS)}", source="argument")
    module, _, kind = BACKENDS[name].partition(":")
    backend: TensorBackend = getattr(importlib.import_module(module), kind)()
    return backend
