"""Expanded: a block with a middle axis of extent one, between a blockwise product and its sum.

Dask multiplies block by block, puts the contracted axis back in its place with extent one (``chunk[..., None, :]``),
adds up along it and drops it. SciPy's compressed arrays have two dimensions, so this wrapper stands for the third.
"""

from __future__ import annotations

from numbers import Integral
from typing import Any

import numpy as np


class Expanded:
    """The (m, 1, n) array of an (m, n) block; it can be added, sliced to nothing and squeezed, and nothing else."""

    __slots__ = ("flat",)
    __array_priority__ = 20.0
    ndim = 3

    def __init__(self, flat: Any) -> None:  # Any: a block
        self.flat = flat

    @property
    def shape(self) -> tuple[int, int, int]:
        """(m, 1, n)."""
        return self.flat.shape[0], 1, self.flat.shape[1]

    @property
    def dtype(self) -> np.dtype[Any]:
        """Of the values."""
        dtype: np.dtype[Any] = self.flat.dtype
        return dtype

    @property
    def nbytes(self) -> int:
        """Of the block."""
        return int(self.flat.nbytes)

    def astype(self, dtype: Any, **_: Any) -> Expanded:
        """The same with values of this dtype."""
        return Expanded(self.flat.astype(dtype))

    def squeeze(self, axis: Any = 1) -> Any:
        """The block."""
        return self.flat

    def __getitem__(self, key: Any) -> Any:
        rows, middle, columns = key
        found = self.flat[rows, columns]
        return found if isinstance(middle, Integral) else Expanded(found)

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **how: Any) -> Any:
        if ufunc is not np.add or method != "__call__" or not all(isinstance(one, Expanded) for one in inputs):
            return NotImplemented
        return Expanded(inputs[0].flat + inputs[1].flat)

    def __array_function__(self, function: Any, types: Any, arguments: Any, how: dict[str, Any]) -> Any:
        return self.flat if function is np.squeeze else NotImplemented
