"""Einsum, R[...] += T0[...] * T1[...] * ...: subscripts come with each call, so the row has no expression."""

from __future__ import annotations

from typing import Any, Final

from autosparse.ops import names
from autosparse.ops.base import Operation
from autosparse.scalar import COMPLEX, REAL


def reference(subscripts: str, *operands: Any) -> Any:  # Any: sparse matrices, tensors and arrays
    """Return the result of `numpy.einsum` for the operands converted to dense arrays."""
    import numpy as np

    dense = [operand.todense() if hasattr(operand, "todense") else operand for operand in operands]
    return np.einsum(subscripts, *map(np.asarray, dense))


EINSUM: Final = Operation(
    name=names.EINSUM,
    formula="R[...] += T0[...] * T1[...] * ..., some of them sparse",
    expressions=(),
    reference=reference,
    library="NumPy",
    packed="",
    dtypes=(*REAL, *COMPLEX),
)
