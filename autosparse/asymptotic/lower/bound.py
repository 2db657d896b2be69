"""A program bound to patterns: what of a run follows from them alone is kept, only values are fetched anew."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import numpy as np

from autosparse._native import runtime_api
from autosparse.asymptotic.lower.kernel import Inputs, Program, Run
from autosparse.asymptotic.lower.levels import levels
from autosparse.asymptotic.operands import AnyArray, Dense, Operand, Sparse

MOST_ENTRIES: Final = 1 << 19
"""Entries of all operands up to which copies of patterns in other orders are kept."""
OWN: Final = -1
PLACES: Final = -2


class Bound:
    """Runs of one program on operands of known patterns.

    An argument is an array of the operand's own (`part` 0, 1: of its rows, 2: its values, whose address may change from
    call to call), one that was made of patterns (`OWN`), or the values in another order, by their `PLACES`.
    """

    __slots__ = ("_parts", "_run", "program")

    def __init__(self, program: Program, run: Run, parts: list[tuple[str, int, AnyArray | None]]) -> None:
        self.program, self._run, self._parts = program, run, parts

    def run(self, operands: Mapping[str, Operand]) -> Sparse | AnyArray:
        """The einsum of operands with the patterns that this was made for; they are `is_plain` for the program."""
        arrays: list[AnyArray | None] = []
        moved: dict[tuple[int, int], AnyArray] = {}  # one copy of a matrix that comes several times
        for name, part, array in self._parts:
            operand = operands[name]
            if part == OWN:
                arrays.append(array)
            elif isinstance(operand, Dense):
                arrays.append(operand.array)
            elif part == PLACES:
                assert array is not None
                key = (runtime_api.address_of(operand.values), id(array))
                if key not in moved:
                    moved[key] = operand.values.take(array)
                arrays.append(moved[key])
            else:
                arrays.append(_own_parts(operand)[part])
        return self._run.run(arrays)


def bound(program: Program, operands: Mapping[str, Operand], extents: dict[str, int], tasks: float) -> Bound | None:
    """`program` for operands with these patterns; None where they are not plain rows, or are large."""
    matrices = {name: one for name, one in operands.items() if isinstance(one, Sparse)}
    if sum(one.nnz for one in matrices.values()) > MOST_ENTRIES or not is_plain(operands, program):
        return None
    inputs = Inputs.of(program, operands)
    parts: list[tuple[str, int, AnyArray | None]] = []
    at = 0
    places: dict[int, AnyArray] = {}
    for name in program.plan.sparse:
        operand, tree = matrices[name], inputs.trees[name]
        n_pattern = 2 * len(tree.crd)
        parts += [(name, *_source(array, operand)) for array in inputs.arrays[at : at + n_pattern]]
        at += n_pattern + 1
        if tree.values is operand.values:
            parts.append((name, 2, None))
            continue
        if id(tree.values) not in places:
            places[id(tree.values)] = _places(operand, program, name)
        parts.append((name, PLACES, places[id(tree.values)]))
    parts += [(access.tensor, 2, None) for access in program.plan.dense]
    return Bound(program, Run(program, inputs, extents, tasks), parts)


def is_plain(operands: Mapping[str, Operand], program: Program) -> bool:
    """Whether the sparse operands are rows of matrices, in contiguous arrays of the program's types."""
    for operand in operands.values():
        if isinstance(operand, Sparse):
            if operand.rows is None or not operand.values.flags.c_contiguous:
                return False
            if any(one.dtype != program.index or not one.flags.c_contiguous for one in operand.rows):
                return False
    return True


def _own_parts(operand: Sparse) -> tuple[AnyArray, AnyArray, AnyArray]:
    assert operand.rows is not None
    return (*operand.rows, operand.values)


def _source(array: AnyArray | None, operand: Sparse) -> tuple[int, AnyArray | None]:
    """Where an argument is found: memory of the operand's owner, who may write there, is not kept."""
    if array is not None:
        for part, own in enumerate(_own_parts(operand)[:2]):
            if np.may_share_memory(array, own):
                return part, None
    return OWN, array


def _places(operand: Sparse, program: Program, name: str) -> AnyArray:
    """Which entry of `operand` stands at each place of the order that the program reads."""
    numbers: Any = np.arange(operand.nnz, dtype=np.int64)
    numbered = Sparse(
        operand.indices, None, numbers, operand.shape, sorted_by=operand.sorted_by, rows=operand.rows
    )  # fmt: skip
    order = program.plan.orders[name]
    found = levels(numbered, order, is_dense=name in program.plan.dense_levels, dtype=program.index).values
    return found.astype(np.intp, copy=False)
