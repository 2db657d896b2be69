"""Three-dimensional view of a block, for the step between a blockwise product and its sum.

Dask multiplies block by block, reinserts the contracted axis with extent one (``chunk[..., None, :]``), sums along it
and drops it. SciPy's compressed arrays have two dimensions, so this wrapper represents the three-dimensional array.
"""

from __future__ import annotations

from numbers import Integral
from typing import Any

import numpy as np


class Expanded:
    """View of an (m, n) block as an (m, 1, n) array; supports addition, slicing and squeezing only."""

    __slots__ = ("flat",)
    __array_priority__ = 20.0
    ndim = 3

    def __init__(self, flat: Any) -> None:  # Any: a block
        self.flat = flat

    @property
    def shape(self) -> tuple[int, int, int]:
        """Shape (m, 1, n)."""
        return self.flat.shape[0], 1, self.flat.shape[1]

    @property
    def dtype(self) -> np.dtype[Any]:
        """Dtype of the values."""
        dtype: np.dtype[Any] = self.flat.dtype
        return dtype

    @property
    def nbytes(self) -> int:
        """Bytes of the block."""
        return int(self.flat.nbytes)

    def astype(self, dtype: Any, **_: Any) -> Expanded:
        """Return the view with values of this dtype."""
        return Expanded(self.flat.astype(dtype))

    def squeeze(self, axis: Any = 1) -> Any:
        """Return the block."""
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
