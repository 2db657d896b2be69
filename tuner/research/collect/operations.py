"""Operations that are measured, as data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from autosparse.ops import OPS as OPERATIONS

MAX_DENSE_BYTES: Final = 1 << 30
"""Maximum bytes of the dense operands together; larger products are not measured."""


@dataclass(frozen=True, slots=True)
class Op:
    """Operation as `collect` names it (spmv, spmm32, ...), with the kind and width of its products.

    Tensors have their first mode as rows.
    """

    name: str
    algorithm: str  # name in `waco_space` and `own_space`
    operation: str
    n_dense_cols: int
    n_dims: int = 2
    model: str = ""
    """Another operation whose model also learns from this one's measurements; "": this operation has its own model."""

    def fits(self, shape: Sequence[int], dtype: str) -> bool:
        """Return whether the dense operands of a pattern of this shape stay within MAX_DENSE_BYTES."""
        return sum(shape) * self.n_dense_cols * np.dtype(dtype).itemsize <= MAX_DENSE_BYTES


OPS: Final[Mapping[str, Op]] = {
    one.name: Op(one.name, one.algorithm, row.name, one.n_dense_cols, one.n_dims, one.model)
    for row in OPERATIONS.values()
    for one in row.collected
}
MODELS: Final = tuple(row.name for row in OPS.values() if not row.model)
"""Operations that have their own model."""


def taught_by(op: str) -> tuple[str, ...]:
    """Return the names of the operations whose measurements train the model of `op`."""
    return tuple(row.name for row in OPS.values() if op in (row.name, row.model))
