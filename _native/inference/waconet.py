"""Evaluation of WACONet in the C runtime, on several threads and without PyTorch.

Weights are laid out once (`ConvolutionWeights`); then each pattern costs one call. Results equal those of
`tuner.research.networks` within 1e-4, because sums have another order.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
from autosparse._native.runtime_api import ffi, lib, pointer, raise_for
from numpy.typing import NDArray

from autosparse.core.dtypes import NarrowIndex, NarrowReal
from autosparse.scalar import NARROW_INDEX, SINGLE

Floats = NDArray[NarrowReal]

CHANNELS: Final = 32
MAX_COORDINATE: Final = 1 << 30


@dataclass(frozen=True, slots=True)
class ConvolutionWeights:
    """Kernels of all layers, concatenated as `asp_waconet` reads them."""

    n_dims: int
    n_layers: int
    values: Floats = field(repr=False)

    @classmethod
    def of(cls, weights: Mapping[str, NDArray[Any]]) -> ConvolutionWeights:
        """Return the weights of ``layer1.0.kernel``, ``layer2.0.kernel``, ...

        Raises ValueError if the shapes are not WACONet's.
        """
        n_layers = sum(name.startswith("layer") and name.endswith(".0.kernel") for name in weights)
        kernels = [np.asarray(weights[f"layer{at}.0.kernel"], NarrowReal) for at in range(1, n_layers + 1)]
        if not kernels or kernels[0].shape not in ((25, 1, CHANNELS), (125, 1, CHANNELS)):
            raise ValueError(f"a first kernel of {kernels[0].shape if kernels else 'no'} weights is not WACONet's")
        n_dims = 2 if kernels[0].shape[0] == 25 else 3
        wanted = (3**n_dims, CHANNELS, CHANNELS)
        others = {kernel.shape for kernel in kernels[1:]} - {wanted}
        if others:
            raise ValueError(f"kernels of shape {others}, not {wanted}")
        return cls(n_dims, n_layers, np.concatenate([kernel.ravel() for kernel in kernels]))


def pooled_means(coordinates: Sequence[NDArray[np.integer[Any]]], weights: ConvolutionWeights, threads: int) -> Floats:
    """Return the mean of every layer's results over its cells, (n_layers * 32,).

    `coordinates` holds one array per dimension; the cells must be distinct and in lexicographic order. Raises
    ValueError if they do not fit the weights, and MemoryError.
    """
    if len(coordinates) != weights.n_dims:
        raise ValueError(f"a pattern of {len(coordinates)} dimensions for weights of {weights.n_dims}")
    columns = [np.ascontiguousarray(column, NarrowIndex) for column in coordinates]
    n_cells = columns[0].size
    if n_cells and max(int(column.max()) for column in columns) >= MAX_COORDINATE:
        raise ValueError(f"coordinates must be below {MAX_COORDINATE}")
    pooled = np.empty(weights.n_layers * CHANNELS, NarrowReal)
    first = [ffi.NULL] if weights.n_dims == 2 else []
    pointers = [*first, *(_pointer(NARROW_INDEX.pointer, column) for column in columns)]
    values, out = _pointer(SINGLE.pointer, weights.values), _pointer(SINGLE.pointer, pooled)
    raise_for(lib.asp_waconet(weights.n_dims, n_cells, *pointers, weights.n_layers, values, out, threads))
    return pooled


def _pointer(kind: str, array: NDArray[Any]) -> Any:  # Any: cffi pointer
    return ffi.cast(kind, pointer(array))
