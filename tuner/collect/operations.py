"""The operations that are measured, as data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from autosparse.ops import OPS as OPERATIONS

MAX_DENSE_BYTES: Final = 1 << 30
"""Of the dense operands together: wider products of larger patterns are not measured."""


@dataclass(frozen=True, slots=True)
class Op:
    """A name as on the command line, and the problems it stands for. Tensors have their first mode as rows."""

    name: str
    algorithm: str  # of `waco_space` and `own_space`
    operation: str
    n_dense_cols: int
    n_dims: int = 2
    model: str = ""  # of another operation, which learns from this one's measurements too; "": its own

    def fits(self, shape: Sequence[int], dtype: str) -> bool:
        """Whether the dense operands of a pattern of this shape stay within MAX_DENSE_BYTES."""
        return sum(shape) * self.n_dense_cols * np.dtype(dtype).itemsize <= MAX_DENSE_BYTES


OPS: Final[Mapping[str, Op]] = {
    one.name: Op(one.name, one.algorithm, row.name, one.n_dense_cols, one.n_dims, one.model)
    for row in OPERATIONS.values()
    for one in row.collected
}
MODELS: Final = tuple(row.name for row in OPS.values() if not row.model)
"""Operations with a model of their own."""


def taught_by(op: str) -> tuple[str, ...]:
    """Operations whose measurements the model of `op` learns from."""
    return tuple(row.name for row in OPS.values() if op in (row.name, row.model))
