"""A program bound to patterns: what of a run follows from them alone is kept, only values are fetched anew."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np

from autosparse._native import runtime_api
from autosparse.contraction.kinds import AnyArray
from autosparse.contraction.lower.kernel import CompiledProgram, Inputs, Run, arrays_of
from autosparse.contraction.lower.levels import levels, numbered
from autosparse.contraction.lower.ordered_entries import EntryLevels
from autosparse.contraction.operands import Dense, Operand, Sparse

MAX_ENTRIES: Final = 1 << 19
"""Entries of all matrices up to which copies of patterns in other orders are kept; a tensor keeps its own."""
OWN: Final = -1
PLACES: Final = -2
TREE: Final = -3


class BoundContraction:
    """Runs of one program on operands of known patterns.

    An argument is an array of the operand's own (`part` 0, 1: of its rows, 2: its values, whose address may change from
    call to call), one that was made of patterns (`OWN`), the values in another order, by their `PLACES`, or all arrays
    of the `TREE` that a tensor keeps.
    """

    __slots__ = ("_parts", "_run", "program")

    def __init__(self, program: CompiledProgram, run: Run, parts: list[tuple[str, int, AnyArray | None]]) -> None:
        self.program, self._run, self._parts = program, run, parts

    def run(self, operands: Mapping[str, Operand]) -> Sparse | AnyArray:
        """The einsum of operands with the patterns that this was made for; they are `is_plain` for the program."""
        arrays: list[AnyArray | None] = []
        moved: dict[tuple[int, int], AnyArray] = {}  # one copy of a matrix that comes several times
        for name, part, array in self._parts:
            operand = operands[name]
            if part == OWN:
                arrays.append(array)
            elif part == TREE:
                assert isinstance(operand, Sparse)
                arrays += arrays_of(_tree(operand, self.program, name), self.program.index)
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


def bound(
    program: CompiledProgram, operands: Mapping[str, Operand], extents: dict[str, int], tasks: float
) -> BoundContraction | None:
    """`program` for operands with these patterns; None where they are neither plain rows nor tensors, or are large."""
    if not is_kept(operands) or not is_plain(operands, program):
        return None
    matrices = {name: one for name, one in operands.items() if isinstance(one, Sparse)}
    inputs = Inputs.of(program, operands, keep=True)
    parts: list[tuple[str, int, AnyArray | None]] = []
    at = 0
    places: dict[int, AnyArray] = {}
    for name in program.plan.sparse:
        operand, tree = matrices[name], inputs.trees[name]
        n_pattern = 2 * len(tree.crd)
        if operand.tensor is not None:
            parts.append((name, TREE, None))
            at += n_pattern + 1
            continue
        parts += [(name, *_source(array, operand)) for array in inputs.arrays[at : at + n_pattern]]
        at += n_pattern + 1
        if tree.values is operand.values:
            parts.append((name, 2, None))
            continue
        if id(tree.values) not in places:
            places[id(tree.values)] = _places(operand, program, name)
        parts.append((name, PLACES, places[id(tree.values)]))
    parts += [(access.tensor, 2, None) for access in program.plan.dense]
    return BoundContraction(program, Run(program, inputs, extents, tasks), parts)


def is_kept(operands: Mapping[str, Operand]) -> bool:
    """Whether copies in other orders stay from call to call: of small matrices, and of tensors that have the room."""
    sparse = [one for one in operands.values() if isinstance(one, Sparse)]
    tensors = [one.tensor for one in sparse if one.tensor is not None]
    return (
        all(one.rows is not None or one.tensor is not None for one in sparse)
        and sum(one.nnz for one in sparse if one.tensor is None) <= MAX_ENTRIES
        and all(tensor.fits(tensors.count(tensor)) for tensor in tensors)
    )


def is_plain(operands: Mapping[str, Operand], program: CompiledProgram) -> bool:
    """Whether the matrices are rows in contiguous arrays of the program's types; tensors are always."""
    for operand in operands.values():
        if isinstance(operand, Sparse) and operand.tensor is None:
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


def _tree(operand: Sparse, program: CompiledProgram, name: str) -> EntryLevels:
    """In the order that the program reads."""
    plan = program.plan
    is_dense = name in plan.dense_levels
    return levels(operand, plan.orders[name], is_dense=is_dense, dtype=program.index, keep=True)


def _places(operand: Sparse, program: CompiledProgram, name: str) -> AnyArray:
    """Which entry of `operand` stands at each place of the order that the program reads."""
    return _tree(numbered(operand), program, name).values.astype(np.intp, copy=False)
