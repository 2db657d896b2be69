"""Einsum by pairwise joins in NumPy: for systems without a compiler, for short calls, and as the oracle of tests.

A term exists where every sparse operand stores an entry; dense operands have a value everywhere, zeros included.
Entries that are not stored are therefore never multiplied, and an infinite value meets only stored or dense zeros.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np

from autosparse.contraction.expressions.semirings import Semiring, named
from autosparse.contraction.kinds import AnyArray
from autosparse.contraction.lower.ordered_entries import keys
from autosparse.contraction.operands import Dense, Operand, Sparse, distinct
from autosparse.contraction.subscripts import Subscripts
from autosparse.core.dtypes import WideIndex

BLOCK: Final = 1 << 20
"""Number of pairs of entries multiplied at a time, which bounds the temporary memory of a join."""


class TooManyPairsError(Exception):
    """Exception for a join with more pairs of entries than the caller allows, raised before the join multiplies."""


def contract(operands: Sequence[Operand], subscripts: Subscripts, *, most_pairs: float = np.inf) -> Sparse:
    """Return the einsum of `operands` as entries, with modes in the order of the output.

    Raise TooManyPairsError if all joins together would multiply more than `most_pairs` pairs of entries.
    """
    semiring = named(subscripts.semiring)
    left = list(operands)
    is_last_dense = all(isinstance(operand, Dense) for operand in left)
    first = left[_smallest(left)] if is_last_dense else min(_sparse(left), key=lambda one: one.nnz)
    left.remove(first)
    result = as_sparse(first)
    while left:
        sharing = [operand for operand in left if set(operand.indices) & set(result.indices)] or left
        other = sharing[_smallest(sharing)]
        left.remove(other)
        needed = subscripts.output + "".join(operand.indices for operand in left)
        if isinstance(other, Dense) and set(other.indices) <= set(result.indices):
            result = scaled(result, other, semiring)
            continue
        if isinstance(other, Sparse) and _are_alike(result, other):
            values = semiring.multiply(result.values, other.values)
            result = Sparse(result.indices, result.coords, values, result.shape, sorted_by=result.sorted_by)
            continue
        found = Join(result, as_sparse(other), needed, semiring)
        most_pairs -= found.n_pairs
        if most_pairs < 0:
            raise TooManyPairsError
        result = found.result()
    return summed(result, subscripts)


def summed(operand: Sparse, subscripts: Subscripts) -> Sparse:
    """Return `operand` summed over the indices that the output lacks, with the others in the output's order."""
    modes = [operand.indices.index(index) for index in subscripts.output if index in operand.indices]
    kept = "".join(index for index in subscripts.output if index in operand.indices)
    shape = tuple(operand.shape[mode] for mode in modes)
    return distinct(kept, operand.coords[modes], operand.values, shape, named(subscripts.semiring))


def as_sparse(operand: Operand) -> Sparse:
    """Return a dense operand as entries, one for each of its elements."""
    if isinstance(operand, Sparse):
        return operand
    array = operand.array
    coords = np.indices(array.shape, dtype=WideIndex).reshape(array.ndim, array.size)
    return Sparse(operand.indices, coords, array.reshape(-1), array.shape, sorted_by=operand.indices)


def _are_alike(one: Sparse, other: Sparse) -> bool:
    """Return whether the distinct entries of two operands are at the same places in the same order."""
    if one.indices != other.indices or one.nnz != other.nnz:
        return False
    is_one = one.tensor is other.tensor is not None
    return is_one or np.array_equal(one.coords, other.coords)


def scaled(entries: Sparse, factor: Dense, semiring: Semiring) -> Sparse:
    """Return sparse entries multiplied by the dense operand `factor`, whose indices must all be among theirs."""
    at = tuple(entries.coords[entries.indices.index(index)] for index in factor.indices)
    values = semiring.multiply(entries.values, factor.array[at] if at else factor.array)
    return Sparse(entries.indices, entries.coords, values, entries.shape, sorted_by=entries.sorted_by)


class Join:
    """Products of the entries of two operands that agree in shared indices, summed over indices not in `needed`."""

    def __init__(self, left: Sparse, right: Sparse, needed: str, semiring: Semiring) -> None:
        self._left, self._right, self._semiring = left, right, semiring
        shared = [index for index in left.indices if index in right.indices]
        extents = [left.shape[left.indices.index(index)] for index in shared]
        both = np.concatenate(
            [one.coords[[one.indices.index(index) for index in shared]] for one in (left, right)], axis=1
        )
        key = keys(both, extents)
        left_key, right_key = key[: left.nnz], key[left.nnz :]
        self._order = np.argsort(right_key, kind="stable")
        self._first = np.searchsorted(right_key[self._order], left_key, side="left")
        self._counts = np.searchsorted(right_key[self._order], left_key, side="right") - self._first
        self.n_pairs = int(self._counts.sum())
        kept = [(one, mode) for one in (left, right) for mode, index in enumerate(one.indices) if index in needed]
        self._kept = {one.indices[mode]: (one is left, mode) for one, mode in reversed(kept)}
        self._indices = "".join(dict.fromkeys(one.indices[mode] for one, mode in kept))
        extent = {index: one.shape[mode] for one in (left, right) for mode, index in enumerate(one.indices)}
        self._shape = tuple(extent[index] for index in self._indices)

    def result(self) -> Sparse:
        """Return the products, sorted and added up at equal coordinates; computed in blocks to bound memory."""
        found = Sparse(self._indices, np.zeros((len(self._shape), 0), WideIndex), self._left.values[:0], self._shape)
        waiting: list[tuple[AnyArray, AnyArray]] = []
        n_waiting = 0
        for first, last in self._blocks():
            block = self._block(first, last)
            waiting.append((block.coords, block.values))
            n_waiting += block.nnz
            if n_waiting > max(BLOCK, found.nnz):
                found, waiting, n_waiting = self._merged(found, waiting), [], 0
        if len(waiting) == 1 and not found.nnz:
            return Sparse(self._indices, *waiting[0], self._shape, sorted_by=self._indices)
        return self._merged(found, waiting)

    def _blocks(self) -> Iterator[tuple[int, int]]:
        """Yield ranges of entries of the left operand with about `BLOCK` pairs each."""
        if self.n_pairs <= BLOCK:
            yield 0, self._left.nnz
            return
        ends = np.cumsum(self._counts)
        first = 0
        while first < self._left.nnz:
            done = int(ends[first - 1]) if first else 0
            last = max(first + 1, int(np.searchsorted(ends, done + BLOCK, side="right")))
            yield first, last
            first = last

    def _block(self, first: int, last: int) -> Sparse:
        counts = self._counts[first:last]
        of_left = np.repeat(np.arange(first, last), counts)
        within = np.arange(of_left.size) - np.repeat(np.cumsum(counts) - counts, counts)
        of_right = self._order[np.repeat(self._first[first:last], counts) + within]
        rows = []
        for index in self._indices:
            is_left, mode = self._kept[index]
            rows.append(self._left.coords[mode][of_left] if is_left else self._right.coords[mode][of_right])
        coords = np.stack(rows) if rows else np.zeros((0, of_left.size), dtype=WideIndex)
        values = self._semiring.multiply(self._left.values[of_left], self._right.values[of_right])
        return distinct(self._indices, coords, values, self._shape, self._semiring)

    def _merged(self, found: Sparse, waiting: list[tuple[AnyArray, AnyArray]]) -> Sparse:
        parts = [(found.coords, found.values), *waiting]
        coords, values = (np.concatenate(one, axis=-1) for one in zip(*parts, strict=True))
        return distinct(self._indices, coords, values, self._shape, self._semiring)


def _sparse(operands: Sequence[Operand]) -> list[Sparse]:
    return [operand for operand in operands if isinstance(operand, Sparse)]


def _smallest(operands: Sequence[Operand]) -> int:
    return min(range(len(operands)), key=lambda n: _size(operands[n]))


def _size(operand: Operand) -> int:
    return operand.nnz if isinstance(operand, Sparse) else int(operand.array.size)
