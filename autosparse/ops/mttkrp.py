"""M[i,j] = sum over the entries (i, k, l, ...) of T of T[i,k,l,...] * B[k,j] * C[l,j] * ...: one factor per mode but i.

The matricised tensor times Khatri-Rao product of CP decompositions (Smith et al. 2015; WACO §5). Entries that repeat
add up.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from autosparse.ops.base import Operation

AnyArray = NDArray[Any]  # of one native dtype

BLOCK_BYTES: Final = 1 << 24
"""Products of factor rows that `reference` holds at a time."""


def reference(
    coords: AnyArray, values: AnyArray, shape: Sequence[int], factors: Sequence[AnyArray | None], mode: int = 0
) -> AnyArray:
    """M by NumPy, (shape[mode], R); ``factors[mode]`` is not looked at. Entries are taken some at a time."""
    others = [(n, factor) for n, factor in enumerate(factors) if n != mode and factor is not None]
    n_vecs = others[0][1].shape[1]
    M = np.zeros((shape[mode], n_vecs), dtype=np.result_type(values, *(factor for _, factor in others)))
    step = max(1, BLOCK_BYTES // max(1, n_vecs * M.itemsize))
    for at in range(0, values.size, step):
        part = slice(at, at + step)
        rows = math.prod((factor[coords[n, part]] for n, factor in others), start=values[part, None])
        np.add.at(M, coords[mode, part], rows)
    return M


MTTKRP: Final = Operation(
    name="mttkrp",
    expression="M[i,j] += T[i,k,l] * B[k,j] * C[l,j]",
    dense_index="j",
    reference=reference,
    gain_prior={1: 0.20, 16: 0.40, 128: 0.30},
    estimate_prior={1: 0.10, 16: 0.20, 128: 0.15},
)
