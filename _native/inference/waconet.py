"""WACONet and the cost model's last layers in the runtime: no PyTorch, several threads.

Weights are laid out once (`ConvolutionWeights`, `PredictorWeights`); then a pattern costs one call, and so does a batch
of programs. Equal to `tuner.networks` within 1e-4; the sums of a cell run in another order.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
from autosparse._native.runtime_api import ffi, lib, pointer, raise_for
from numpy.typing import NDArray

Floats = NDArray[np.float32]

CHANNELS: Final = 32
MAX_COORDINATE: Final = 1 << 30
_HIDDEN: Final = ((128, 256), (64, 128), (1, 64))
"""Shapes of ``final.0``, ``final.2`` and ``final.4``: what the C code is written for."""


@dataclass(frozen=True, slots=True)
class ConvolutionWeights:
    """Kernels of all layers behind each other, as `asp_waconet` reads them."""

    n_dims: int
    n_layers: int
    values: Floats = field(repr=False)

    @classmethod
    def of(cls, weights: Mapping[str, NDArray[Any]]) -> ConvolutionWeights:
        """From ``layer1.0.kernel``, ``layer2.0.kernel``, ...; ValueError when they are not WACONet's."""
        n_layers = sum(name.startswith("layer") and name.endswith(".0.kernel") for name in weights)
        kernels = [np.asarray(weights[f"layer{at}.0.kernel"], np.float32) for at in range(1, n_layers + 1)]
        if not kernels or kernels[0].shape not in ((25, 1, CHANNELS), (125, 1, CHANNELS)):
            raise ValueError(f"a first kernel of {kernels[0].shape if kernels else 'no'} weights is not WACONet's")
        n_dims = 2 if kernels[0].shape[0] == 25 else 3
        wanted = (3**n_dims, CHANNELS, CHANNELS)
        others = {kernel.shape for kernel in kernels[1:]} - {wanted}
        if others:
            raise ValueError(f"kernels of shape {others}, not {wanted}")
        return cls(n_dims, n_layers, np.concatenate([kernel.ravel() for kernel in kernels]))


def pooled_means(coordinates: Sequence[NDArray[np.integer[Any]]], weights: ConvolutionWeights, threads: int) -> Floats:
    """The mean of every layer's results over its cells, (n_layers * 32,).

    `coordinates`: one array per dimension, the cells distinct and in lexicographic order. ValueError when they are
    not for these weights; MemoryError.
    """
    if len(coordinates) != weights.n_dims:
        raise ValueError(f"a pattern of {len(coordinates)} dimensions for weights of {weights.n_dims}")
    columns = [np.ascontiguousarray(column, np.int32) for column in coordinates]
    n_cells = columns[0].size
    if n_cells and max(int(column.max()) for column in columns) >= MAX_COORDINATE:
        raise ValueError(f"coordinates must be below {MAX_COORDINATE}")
    pooled = np.empty(weights.n_layers * CHANNELS, np.float32)
    first = [ffi.NULL] if weights.n_dims == 2 else []
    pointers = [*first, *(_pointer("int32_t *", column) for column in columns)]
    values, out = _pointer("float *", weights.values), _pointer("float *", pooled)
    raise_for(lib.asp_waconet(weights.n_dims, n_cells, *pointers, weights.n_layers, values, out, threads))
    return pooled


@dataclass(frozen=True, slots=True)
class PredictorWeights:
    """The layers ``final.*``, laid out for `asp_predict`."""

    pattern: Floats = field(repr=False)  # (128, 128), of the pattern's embedding
    program: Floats = field(repr=False)  # (128, 128), of the program's
    bias: Floats = field(repr=False)
    second: Floats = field(repr=False)  # (128, 64)
    second_bias: Floats = field(repr=False)
    third: Floats = field(repr=False)
    third_bias: float

    @classmethod
    def of(cls, weights: Mapping[str, NDArray[Any]]) -> PredictorWeights:
        """From ``final.0.weight`` ...; ValueError when the layers have other widths."""
        layers = [np.asarray(weights[f"final.{at}.weight"], np.float32) for at in (0, 2, 4)]
        biases = [np.asarray(weights[f"final.{at}.bias"], np.float32) for at in (0, 2, 4)]
        shapes = tuple(layer.shape for layer in layers)
        if shapes != _HIDDEN:
            raise ValueError(f"layers of shapes {shapes}, not {_HIDDEN}")
        first, second, third = layers
        return cls(
            np.ascontiguousarray(first[:, :128]),
            np.ascontiguousarray(first[:, 128:]),
            biases[0],
            np.ascontiguousarray(second.T),
            biases[1],
            third.ravel(),
            float(biases[2][0]),
        )

    def share_of_programs(self, embeddings: Floats) -> Floats:
        """The first layer's share of each program, (n, 128), from embeddings (n, 128): computed once per program."""
        return np.ascontiguousarray(embeddings @ self.program.T)

    def predict(
        self, pattern: Floats, programs: Floats, ids: NDArray[np.int32] | None = None, *, threads: int = 1
    ) -> Floats:
        """Costs of the programs `ids` (all) on the pattern with embedding `pattern`, (n,).

        `programs`: what `share_of_programs` returned.
        """
        share = self.pattern @ pattern + self.bias
        n = len(programs) if ids is None else ids.size
        costs = np.empty(n, np.float32)
        which = ffi.NULL if ids is None else _pointer("int32_t *", ids)
        floats = [_pointer("float *", one) for one in (programs, share, self.second, self.second_bias, self.third)]
        lib.asp_predict(n, which, *floats, self.third_bias, _pointer("float *", costs), threads)
        return costs


def _pointer(kind: str, array: NDArray[Any]) -> Any:  # Any: cffi pointer
    return ffi.cast(kind, pointer(array))
