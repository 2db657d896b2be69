"""Einsum by joins of two operands at a time in NumPy: the path without a compiler, and an oracle in tests."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from autosparse.asymptotic.lower.ordered_entries import keys
from autosparse.asymptotic.operands import AnyArray, Operand, Sparse, distinct
from autosparse.asymptotic.subscripts import Subscripts


def contract(operands: Sequence[Operand], subscripts: Subscripts) -> Sparse:
    """The entries of the einsum of `operands`, indices in the order of the output."""
    left = [as_sparse(operand) for operand in operands]
    result = left.pop(_smallest(left))
    while left:
        sharing = [operand for operand in left if set(operand.indices) & set(result.indices)] or left
        other = sharing[_smallest(sharing)]
        left.remove(other)
        needed = subscripts.output + "".join(operand.indices for operand in left)
        result = joined(result, other, needed)
    return summed(result, subscripts)


def summed(operand: Sparse, subscripts: Subscripts) -> Sparse:
    """`operand` summed over what the output lacks, its modes in the output's order."""
    modes = [operand.indices.index(index) for index in subscripts.output if index in operand.indices]
    kept = "".join(index for index in subscripts.output if index in operand.indices)
    return distinct(kept, operand.coords[modes], operand.values, tuple(operand.shape[mode] for mode in modes))


def as_sparse(operand: Operand) -> Sparse:
    """A dense operand by its nonzeros."""
    if isinstance(operand, Sparse):
        return operand
    array = operand.array
    coords = np.stack(np.nonzero(array)) if array.ndim else np.zeros((0, 1), dtype=np.int64)
    values = array[tuple(coords)] if array.ndim else array.reshape(1)
    return Sparse(operand.indices, coords.astype(np.int64), values, array.shape)


def joined(left: Sparse, right: Sparse, needed: str) -> Sparse:
    """Products of entries that agree in the shared indices, summed over indices that nothing needs any more."""
    shared = [index for index in left.indices if index in right.indices]
    extents = [left.shape[left.indices.index(index)] for index in shared]
    both = np.concatenate(
        [operand.coords[[operand.indices.index(index) for index in shared]] for operand in (left, right)], axis=1
    )
    key = keys(both, extents)
    left_key, right_key = key[: left.nnz], key[left.nnz :]
    order = np.argsort(right_key, kind="stable")
    first = np.searchsorted(right_key[order], left_key, side="left")
    counts = np.searchsorted(right_key[order], left_key, side="right") - first
    of_left = np.repeat(np.arange(left.nnz), counts)
    within = np.arange(of_left.size) - np.repeat(np.cumsum(counts) - counts, counts)
    of_right = order[np.repeat(first, counts) + within]
    values = left.values[of_left] * right.values[of_right]
    rows: list[AnyArray] = []
    kept, shape = "", []
    for operand, chosen in ((left, of_left), (right, of_right)):
        for mode, index in enumerate(operand.indices):
            if index in needed and index not in kept:
                kept += index
                shape.append(operand.shape[mode])
                rows.append(operand.coords[mode][chosen])
    coords = np.stack(rows) if rows else np.zeros((0, values.size), dtype=np.int64)
    return distinct(kept, coords, values, tuple(shape))


def _smallest(operands: Sequence[Sparse]) -> int:
    return min(range(len(operands)), key=lambda n: operands[n].nnz)
