"""Plan: a program with everything that its kernel is generated from."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final

from autosparse.contraction.cin.nodes import (
    Assign,
    Expression,
    Loop,
    OperatorCall,
    Statement,
    TensorAccess,
    Where,
    reads,
)
from autosparse.contraction.cost.model import Steps, concordances
from autosparse.contraction.programs.nests import workspaces
from autosparse.contraction.programs.protocols import with_protocols

MAX_KEYS: Final = 2**62
"""Maximum dense size of a workspace, whose entries are numbered in 64 bits."""
MAX_DENSE_PLACES: Final = 1 << 27
"""Maximum extent for which rank-1 workspaces and intersection marks are stored as arrays."""


@dataclass(frozen=True)
class EinsumPlan:
    """Program with its protocols and the storage of its operands and result."""

    program: Statement
    steps: Steps
    output: TensorAccess
    is_dense_output: bool
    sparse: tuple[str, ...]  # names of sparse inputs, in argument order
    dense: tuple[TensorAccess, ...]  # dense inputs, in argument order
    indices: str  # in the order in which extents are passed
    dense_levels: frozenset[str]  # sparse inputs whose first level is dense
    are_large: frozenset[str] = field(default=frozenset())  # indices whose extent exceeds `MAX_DENSE_PLACES`
    semiring: str = "plus_times"
    has_marks: bool = True  # False: intersections are merges only, as the paper's compiler emits them

    @cached_property
    def text(self) -> str:
        """Text of the program with its protocols, in the paper's notation."""
        return str(with_protocols(self.program, self.steps))

    @cached_property
    def spaces(self) -> dict[str, TensorAccess]:
        """Write accesses of the workspaces, by name."""
        return workspaces(self.program)

    @cached_property
    def orders(self) -> dict[str, str]:
        """Level order of each sparse input and workspace: its indices in the order of the loops around its reads."""
        names = {*self.sparse, *self.spaces}
        return {
            access.tensor: "".join(access.indices[mode] for mode in order)
            for access, order in dict(concordances(self.program)).items()
            if access.tensor in names
        }

    @cached_property
    def has_sums(self) -> bool:
        """Return whether an expression contains an addition, besides reductions by ``+=``; loops then visit unions."""
        return "+" in {op for assign in _expressions(self.program) for op in _operators(assign)}

    def protocol(self, tensor: str, index: str) -> str:
        """Return the protocol, "s" or "l", by which a sparse input or workspace is read at an index."""
        access = next(access for access in self.steps if access.tensor == tensor)
        return self.steps[access][access.indices.index(index)]

    def workspace_kind(self, name: str) -> str:
        """Return the storage: ``scalar``, ``space`` (rank-1 array and bit set) or ``table`` (hashed or dense slots)."""
        indices = self.spaces[name].indices
        if not indices:
            return "scalar"
        is_array = len(indices) == 1 and not self.has_sums and indices[0] not in self.are_large
        return "space" if is_array else "table"

    def is_frozen(self, name: str) -> bool:
        """Return whether a table is converted to a tree of levels before its reads, because a read steps through it."""
        return self.workspace_kind(name) == "table" and (
            self.has_sums or any(self.protocol(name, index) == "s" for index in self.orders[name])
        )

    @cached_property
    def reads_in_one_order(self) -> bool:
        """Return whether all reads of a tensor bind its indices in one order, as kernels have one tree per tensor."""
        orders = {
            (access.tensor, tuple(access.indices[m] for m in order)) for access, order in concordances(self.program)
        }
        return len(orders) == len({tensor for tensor, _ in orders})

    def fits(self, extents: Mapping[str, int]) -> bool:
        """Return whether kernels can run the plan: one read order per tensor, numbered workspaces, no huge loops."""
        return (
            self.reads_in_one_order
            and not self.are_large & self.unled
            and all(math.prod(extents[index] for index in access.indices) < MAX_KEYS for access in self.spaces.values())
        )

    @cached_property
    def unled(self) -> frozenset[str]:
        """Indices whose loop runs over the whole extent, because no read steps through stored entries."""
        return frozenset(_unled(self.program, self.steps))

    @cached_property
    def n_prefix(self) -> int:
        """Number of leading modes of a sparse output that the loops write in order."""
        bound = _loops_of_result(self.program)
        n = 0
        while n < len(self.output_order) and bound[n] == self.output_order[n]:
            n += 1
        return n

    @cached_property
    def output_order(self) -> str:
        """Indices of the output in loop order."""
        return "".join(i for i in _loops_of_result(self.program) if i in self.output.indices)

    @cached_property
    def output_kind(self) -> str:
        """Output kind: ``dense``, ``append``, ``row`` (last mode buffered) or ``entries`` (sorted at the end)."""
        if self.is_dense_output or not self.output.indices:
            return "dense"
        n_inserted = len(self.output.indices) - self.n_prefix
        kind = {0: "append", 1: "row"}.get(n_inserted, "entries")
        is_buffered = self.n_prefix and self.output_order[-1] not in self.are_large
        return "entries" if kind == "row" and not is_buffered else kind


def _unled(node: Statement, steps: Steps) -> set[str]:
    if isinstance(node, Assign):
        return set()
    if isinstance(node, Where):
        return _unled(node.consumer, steps) | _unled(node.producer, steps)
    bare = {TensorAccess(access.tensor, access.indices) for access in reads(node.body)}
    stepped = {
        index
        for access in bare & steps.keys()
        for index, protocol in zip(access.indices, steps[access], strict=True)
        if protocol == "s"
    }
    return set(node.indices) - stepped | _unled(node.body, steps)


def _loops_of_result(statement: Statement) -> list[str]:
    """Return the indices of the loops around the assignment that writes the result, outermost first."""
    found: list[str] = []
    while not isinstance(statement, Assign):
        if isinstance(statement, Loop):
            found += statement.indices
            statement = statement.body
        else:
            statement = statement.consumer
    return found


def _expressions(program: Statement) -> list[Expression]:
    if isinstance(program, Assign):
        return [program.rhs]
    if isinstance(program, Loop):
        return _expressions(program.body)
    return _expressions(program.consumer) + _expressions(program.producer)


def _operators(node: Expression) -> set[str]:
    if not isinstance(node, OperatorCall):
        return set()
    return {node.op}.union(*map(_operators, node.args))
