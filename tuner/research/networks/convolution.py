"""Sparse convolution: out[u] = Σ_k F[u * stride + offset_k] @ kernel[k] over the occupied cells (WACO section 4.1.1).

It gathers, multiplies once per offset and scatters, so that the work is proportional to the pairs of cells that the
kernel connects. Values, parameter names and parameter shapes equal those of MinkowskiEngine's convolution, so that the
backends of the networks are interchangeable.
"""

from __future__ import annotations

import importlib
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Protocol

import torch
from autosparse.tuner.research.networks.lattice import KernelMap, Lattice

from autosparse.errors import OptionError

FEW_INPUTS: Final = 4
"""Maximum input channels for which all offsets are one matrix product; above it, one product per offset is used.

With fewer channels, gathering their short rows would dominate.
"""
FEW_NUMBERS: Final = 1 << 18
"""Maximum size of that product's left factor for which it is always used: one operation instead of three per offset."""


@dataclass(frozen=True, eq=False)
class SparseFeatures:
    """Features on the cells of a lattice: `values` is (n cells, channels), in the order of the lattice.

    `is_one` marks values that are known to be all 1.
    """

    lattice: Lattice
    values: torch.Tensor
    is_one: bool = False

    @classmethod
    def ones(cls, lattice: Lattice) -> SparseFeatures:
        """Return the number 1 on every cell, (n cells, 1), which represents a pattern."""
        return cls(lattice, torch.ones(len(lattice), 1, device=lattice.keys.device), is_one=True)


class SparseConvolution(torch.nn.Module):
    """Sparse convolution without bias; output cells are ``floor(c / stride)`` of the input cells.

    ``kernel`` is (kernel_size^D, n_in, n_out), initialised from U(±1/√(n_in kernel_size^D)).
    """

    def __init__(self, n_in: int, n_out: int, *, kernel_size: int, stride: int = 1, dimension: int = 2) -> None:
        super().__init__()
        self.kernel_size, self.stride, self.dimension = kernel_size, stride, dimension
        n_offsets = kernel_size**dimension
        bound = 1.0 / math.sqrt(n_in * n_offsets)
        self.kernel = torch.nn.Parameter(torch.empty(n_offsets, n_in, n_out).uniform_(-bound, bound))

    def forward(self, inputs: SparseFeatures) -> SparseFeatures:
        """Return the convolved features, on the coarser lattice."""
        lattice = inputs.lattice
        if lattice.dimension != self.dimension:
            raise ValueError(f"a lattice of {lattice.dimension} dimensions for a kernel of {self.dimension}")
        if inputs.is_one and self.stride == 1:
            seen = lattice.occupancy(self.kernel_size)
            return SparseFeatures(lattice, (seen.neighbours @ self.kernel[:, 0]).index_select(0, seen.place))
        pairs = lattice.kernel_map(self.kernel_size, self.stride)
        n_offsets, n_in, _ = self.kernel.shape
        is_small = n_in <= FEW_INPUTS or pairs.n_outputs * n_offsets * n_in <= FEW_NUMBERS
        convolve = _in_one_product if is_small else _Convolve.apply
        return SparseFeatures(lattice.coarser(self.stride), convolve(inputs.values, self.kernel, pairs))

    def extra_repr(self) -> str:
        """Return the arguments shown in the representation of the module."""
        _, n_in, n_out = self.kernel.shape
        return f"{n_in}, {n_out}, kernel_size={self.kernel_size}, stride={self.stride}, dimension={self.dimension}"


class Rectify(torch.nn.Module):
    """Layer that computes max(0, x) on sparse features."""

    def forward(self, inputs: SparseFeatures) -> SparseFeatures:
        """Return the rectified features on the same cells."""
        return SparseFeatures(inputs.lattice, torch.relu(inputs.values))


def global_average(features: SparseFeatures) -> torch.Tensor:
    """Return the mean over the cells, (1, channels); zeros without cells."""
    return features.values.sum(dim=0, keepdim=True) / max(1, len(features.lattice))


def _in_one_product(values: torch.Tensor, kernel: torch.Tensor, pairs: KernelMap) -> torch.Tensor:
    """Return the sparse convolution computed as one dense product of gathered rows; autograd differentiates it."""
    n_offsets, n_in, n_out = kernel.shape
    counts = torch.tensor(pairs.starts).diff().to(values.device)
    offset = torch.repeat_interleave(torch.arange(n_offsets, device=values.device), counts)
    columns = values.new_zeros(pairs.n_outputs, n_offsets, n_in)
    columns = columns.index_put((pairs.outputs.long(), offset), values.index_select(0, pairs.inputs))
    return columns.view(pairs.n_outputs, n_offsets * n_in) @ kernel.view(n_offsets * n_in, n_out)


class _Convolve(torch.autograd.Function):
    """Convolution whose backward pass gathers rows again, since storing them takes K^D times the memory."""

    @staticmethod
    def forward(ctx: Any, values: torch.Tensor, kernel: torch.Tensor, pairs: KernelMap) -> torch.Tensor:
        ctx.save_for_backward(values, kernel)
        ctx.pairs = pairs
        out = values.new_zeros(pairs.n_outputs, kernel.shape[2])
        for k in range(kernel.shape[0]):
            span = slice(pairs.starts[k], pairs.starts[k + 1])
            if span.start == span.stop:
                continue
            out.index_add_(0, pairs.outputs[span], values.index_select(0, pairs.inputs[span]) @ kernel[k])
        return out

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> tuple[torch.Tensor | None, torch.Tensor | None, None]:
        values, kernel = ctx.saved_tensors
        pairs: KernelMap = ctx.pairs
        grad_values = torch.zeros_like(values) if ctx.needs_input_grad[0] else None
        grad_kernel = torch.zeros_like(kernel) if ctx.needs_input_grad[1] else None
        for k in range(kernel.shape[0]):
            span = slice(pairs.starts[k], pairs.starts[k + 1])
            if span.start == span.stop:
                continue
            upper = grad.index_select(0, pairs.outputs[span])
            if grad_values is not None:
                grad_values.index_add_(0, pairs.inputs[span], upper @ kernel[k].T)
            if grad_kernel is not None:
                torch.mm(values.index_select(0, pairs.inputs[span]).T, upper, out=grad_kernel[k])
        return grad_values, grad_kernel, None


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
    "own": "autosparse.tuner.research.networks.convolution:OwnBackend",
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
