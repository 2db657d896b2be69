"""Contraction of dense operands in a semiring other than the ordinary one, for which NumPy has no function."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np

from autosparse.contraction.expressions.semirings import Semiring, added_along, named
from autosparse.contraction.kinds import AnyArray
from autosparse.contraction.operands import Dense
from autosparse.contraction.subscripts import Subscripts

BLOCK: Final = 1 << 20
"""Number of products that are held at a time, unless a result is larger."""


def contract_arrays(operands: Sequence[Dense], subscripts: Subscripts) -> AnyArray:
    """Return the einsum of dense operands in the semiring of `subscripts`, two operands at a time from the left."""
    semiring = named(subscripts.semiring)
    result, *left = (one if one.indices else Dense("", one.array.reshape(())) for one in operands)
    while left:
        other = left.pop(0)
        needed = subscripts.output + "".join(operand.indices for operand in left)
        result = _product(result, other, needed, subscripts.extents, semiring)
    result = _summed(result, subscripts.output, semiring)
    order = [result.indices.index(index) for index in subscripts.output if index in result.indices]
    array = result.array.transpose(order)
    missing = tuple(mode for mode, index in enumerate(subscripts.output) if index not in result.indices)
    return np.broadcast_to(np.expand_dims(array, missing), subscripts.shape).copy() if missing else array


def _summed(operand: Dense, needed: str, semiring: Semiring) -> Dense:
    """Return `operand` added up over the indices that are not in `needed`."""
    axes = tuple(mode for mode, index in enumerate(operand.indices) if index not in needed)
    kept = "".join(index for index in operand.indices if index in needed)
    return Dense(kept, added_along(operand.array, axes, semiring))


def _product(left: Dense, right: Dense, needed: str, extents: Mapping[str, int], semiring: Semiring) -> Dense:
    """Return the product of two operands, added up over the indices that are not in `needed`."""
    left, right = _summed(left, needed + right.indices, semiring), _summed(right, needed + left.indices, semiring)
    letters = "".join(dict.fromkeys(left.indices + right.indices))
    kept = "".join(index for index in letters if index in needed)
    summed = "".join(index for index in letters if index not in needed)
    one, other = (_by_rows(operand, kept, summed, extents) for operand in (left, right))
    result = semiring.filled(tuple(extents[index] for index in kept), left.array.dtype)
    n_summed = math.prod(extents[index] for index in summed)
    step = max(1, BLOCK // max(1, result.size))
    for first in range(0, n_summed, step):
        terms = semiring.multiply(one[..., first : first + step], other[..., first : first + step])
        semiring.add(result, semiring.add.reduce(terms, axis=-1), out=result)
    return Dense(kept, result)


def _by_rows(operand: Dense, kept: str, summed: str, extents: Mapping[str, int]) -> AnyArray:
    """Return the operand with an axis for each index of `kept` (1 where it has none), and one for all of `summed`."""
    letters = [index for index in kept if index in operand.indices] + list(summed)
    array = operand.array.transpose([operand.indices.index(index) for index in letters])
    shape = [extents[index] if index in operand.indices else 1 for index in kept]
    return array.reshape(*shape, math.prod(extents[index] for index in summed))
