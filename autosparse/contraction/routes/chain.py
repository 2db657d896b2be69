"""Compute ``A B C`` of three sparse matrices by two sparse products, in the cheaper order."""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np

from autosparse.arrays import construct
from autosparse.contraction.kinds import AnyArray
from autosparse.core.dtypes import Real
from autosparse.targets.priors import number

LOOP: Final = number("programs", "entered loop")
"""Cost of entering an innermost loop, in multiplications: many short rows cost more than few long ones."""


def product(A: Any, B: Any, C: Any) -> Any:
    """Return ``A B C`` as CSR, in the order of products estimated cheaper; the two orders differ by rounding."""
    made: dict[int, Any] = {}
    left, middle, right = (made.setdefault(id(one), construct.csr(one, copy=False)) for one in (A, B, C))
    if is_right_first(left, middle, right):
        return left @ (middle @ right)
    return (left @ middle) @ right


def is_right_first(A: Any, B: Any, C: Any) -> bool:
    """Return whether ``B C`` should be computed first, by estimates of the multiplications and loops of both orders.

    The number of entries of the first product is estimated as if they were drawn at random. Takes O(nnz).
    """
    lengths_b = np.diff(B.indptr)
    if A is B is C:  # both orders have equal products and multiplications and differ only in the number of loops
        return bool(A.nnz < _distinct(_total(A, lengths_b), A.shape[0] * A.shape[1]))
    lengths_c = np.diff(C.indptr)
    per_row_of_b = _row_sums(B, lengths_c)
    n_ab, n_bc = _total(A, lengths_b), float(per_row_of_b.sum())
    n_abc = _total(A, per_row_of_b)
    entries_ab = _distinct(n_ab, A.shape[0] * B.shape[1])
    entries_bc = _distinct(n_bc, B.shape[0] * C.shape[1])
    left_first = n_ab + n_abc * entries_ab / max(n_ab, 1.0) + LOOP * (A.nnz + entries_ab)
    right_first = n_bc + n_abc * entries_bc / max(n_bc, 1.0) + LOOP * (B.nnz + A.nnz)
    return bool(right_first < left_first)


def _total(A: Any, weights: AnyArray) -> float:
    return float(weights[A.indices[: A.indptr[-1]]].sum(dtype=Real))


def _row_sums(A: Any, weights: AnyArray) -> AnyArray:
    """Return, for each row of `A`, the sum of `weights` over the columns of its entries."""
    running = np.concatenate(([0.0], np.cumsum(weights[A.indices[: A.indptr[-1]]], dtype=Real)))
    return np.asarray(running[A.indptr[1:]] - running[A.indptr[:-1]])


def _distinct(n_drawn: float, n_places: int) -> float:
    """Return the expected number of distinct values among `n_drawn` random draws from `n_places`."""
    return n_places * -math.expm1(-n_drawn / n_places) if n_places else 0.0
