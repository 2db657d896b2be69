"""Bind a program to sparsity patterns: keep everything that depends on the patterns alone and refetch only values."""

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
from autosparse.core.dtypes import NativeIndex

MAX_ENTRIES: Final = 1 << 19
"""Maximum number of entries of all matrices for which reordered patterns are kept; tensors have their own limit."""
OWN: Final = -1
"""Part number of an array that the bound program owns, made from patterns."""
PLACES: Final = -2
"""Part number of an operand's values in another order, given by their positions."""
TREE: Final = -3
"""Part number of all arrays of a tree that a tensor keeps."""


class BoundContraction:
    """Compiled program bound to operands of known patterns, which can be run repeatedly with other values.

    Each argument of the kernel has a part number. Parts 0 and 1 are the operand's row arrays and part 2 is its values;
    their addresses may change between calls. The other parts are `OWN`, `PLACES` and `TREE`.
    """

    __slots__ = ("_parts", "_run", "program")

    def __init__(self, program: CompiledProgram, run: Run, parts: list[tuple[str, int, AnyArray | None]]) -> None:
        self.program, self._run, self._parts = program, run, parts

    def run(self, operands: Mapping[str, Operand]) -> Sparse | AnyArray:
        """Return the einsum of operands with the bound patterns; they must fulfil `is_plain` for the program."""
        arrays: list[AnyArray | None] = []
        moved: dict[tuple[int, int], AnyArray] = {}  # one copy of a matrix that occurs several times
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
    """Bind `program` to the patterns of `operands`; None unless `is_kept(operands)` and `is_plain` hold.

    `tasks` is the estimated number of loop iterations.
    """
    if not is_kept(operands) or not is_plain(operands, program):
        return None
    matrices = {name: one for name, one in operands.items() if isinstance(one, Sparse)}
    inputs = Inputs.of(program.plan, operands, program.index, keep=True)
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
    """Return whether the operands are matrices of few entries or tensors whose reordered copies may be kept."""
    sparse = [one for one in operands.values() if isinstance(one, Sparse)]
    tensors = [one.tensor for one in sparse if one.tensor is not None]
    return (
        all(one.rows is not None or one.tensor is not None for one in sparse)
        and sum(one.nnz for one in sparse if one.tensor is None) <= MAX_ENTRIES
        and all(tensor.fits(tensors.count(tensor)) for tensor in tensors)
    )


def is_plain(operands: Mapping[str, Operand], program: CompiledProgram) -> bool:
    """Return whether all matrices are CSR in contiguous arrays of the program's index type; tensors always qualify."""
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
    """Return (part number, array to keep) of an argument; (0 or 1, None) if the caller's row arrays contain it."""
    if array is not None:
        for part, own in enumerate(_own_parts(operand)[:2]):
            if np.may_share_memory(array, own):
                return part, None
    return OWN, array


def _tree(operand: Sparse, program: CompiledProgram, name: str) -> EntryLevels:
    """Return the tree of an operand in the level order that the program reads, kept for later calls."""
    plan = program.plan
    is_dense = name in plan.dense_levels
    return levels(operand, plan.orders[name], is_dense=is_dense, dtype=program.index, keep=True)


def _places(operand: Sparse, program: CompiledProgram, name: str) -> AnyArray:
    """Return, for each position of the level order that the program reads, the number of the entry in `operand`."""
    return _tree(numbered(operand), program, name).values.astype(NativeIndex, copy=False)
