"""MTTKRP: M[i,j] = sum over the entries (i, k, l, ...) of T of T[i,k,l,...] * B[k,j] * C[l,j] * ..., one factor per k,
l, ...

It is the matricized tensor times Khatri-Rao product of CP decompositions (Smith et al. 2015; WACO §5). Entries that
repeat add up.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from autosparse.core.expression import Access, IndexExpression
from autosparse.ops import names, tuned
from autosparse.ops.base import DeviceProduct, Operation, Words

AnyArray = NDArray[Any]  # Any: one native dtype

BLOCK_BYTES: Final = 1 << 24
"""Maximum bytes of products of factor rows that `reference` holds at a time."""


def reference(
    coords: AnyArray, values: AnyArray, shape: Sequence[int], factors: Sequence[AnyArray | None], mode: int = 0
) -> AnyArray:
    """Compute M by NumPy, (shape[mode], R), in blocks of entries; ``factors[mode]`` is not read."""
    others = [(n, factor) for n, factor in enumerate(factors) if n != mode and factor is not None]
    n_vecs = others[0][1].shape[1]
    M = np.zeros((shape[mode], n_vecs), dtype=np.result_type(values, *(factor for _, factor in others)))
    step = max(1, BLOCK_BYTES // max(1, n_vecs * M.itemsize))
    for at in range(0, values.size, step):
        part = slice(at, at + step)
        rows = math.prod((factor[coords[n, part]] for n, factor in others), start=values[part, None])
        np.add.at(M, coords[mode, part], rows)
    return M


TENSOR_INDICES: Final = ("i", "k", "l", "m", "n", "o")
"""Indices of the tensor: the rows of M, then the others in the order of its modes; ``j`` counts columns."""
FACTORS: Final = ("B", "C", "D", "E", "F")
"""Names of the dense operands, in the order of the indices of their rows: ``k``, ``l``, ..."""


def _expression(order: int) -> IndexExpression:
    stored = TENSOR_INDICES[:order]
    factors = tuple(Access(name, (index, "j")) for name, index in zip(FACTORS, stored[1:], strict=False))
    return IndexExpression(Access("M", ("i", "j")), Access("T", stored), factors)


MTTKRP: Final[Operation] = Operation(
    name=names.MTTKRP,
    formula="M[i,j] += T[i,k,l] * B[k,j] * C[l,j]",
    expressions=tuple(_expression(order) for order in range(3, len(TENSOR_INDICES) + 1)),
    reference=reference,
    library="NumPy",
    sparse="tensor",
    packed="fibers",
    device=(DeviceProduct(name="mttkrp", kind="fibers"),),
    tuning=tuned.MTTKRP,
    words=Words(
        title="T with rows of mode {mode}, factors of {width}",
        dense="factors",
        statement="M[i, j] += T[i, k, l] * B[k, j] * C[l, j]",
        dense_shapes="",
        default_nest=(
            "parallel for i in rows with entries       # equal shares of the entries",
            "  for j1 in tiles of the columns          # a tile of the row of M stays in registers",
            "    for the other modes, level by level",
            "      M[i, j] += T[i, k, l] * B[k, j] * C[l, j]",
        ),
        default_storage="the tensor by levels (CSF), or row by row where nodes would have few children",
    ),
)
