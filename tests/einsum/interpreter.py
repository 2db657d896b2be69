"""Interpreter of programs in concrete index notation, coordinate by coordinate, in plain Python.

It is the oracle between NumPy's einsum and emitted loops: it follows loops, protocols and workspaces, and counts the
executed tasks, which the cost model bounds. It is slow.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np

from autosparse.contraction.cin.nodes import Assign, Expression, Loop, Statement, TensorAccess, Where, reads, target
from autosparse.contraction.cost.model import Steps
from autosparse.contraction.kinds import AnyArray

Entries: TypeAlias = "dict[tuple[int, ...], Any]"  # values of any type by coordinates
Bound: TypeAlias = Mapping[str, int]


@dataclass(slots=True)
class Interpreter:
    """One run of a program, with sparse tensors as dicts of entries and dense ones as arrays."""

    steps: Steps
    extents: Mapping[str, int]
    sparse: dict[str, Entries]
    dense: dict[str, AnyArray] = field(default_factory=dict)
    n_assigned: int = 0  # executed assignments
    n_visited: int = 0  # executed loop iterations

    def run(self, program: Statement) -> Entries:
        """Run `program` and return the entries of its result."""
        name = target(program).tensor
        self.sparse[name] = {}
        self._statement(program, {})
        return self.sparse[name]

    def _statement(self, node: Statement, bound: dict[str, int]) -> None:
        if isinstance(node, Loop):
            rest = node.indices[1:]
            self._loop(node.indices[0], Loop(rest, node.body) if rest else node.body, bound)
        elif isinstance(node, Where):
            self.sparse[node.workspace] = {}
            self._statement(node.producer, bound)
            self._statement(node.consumer, bound)
        elif self._is_alive(node.rhs, bound):
            self.n_assigned += 1
            at = tuple(bound[index] for index in node.lhs.indices)
            written = self.sparse[node.lhs.tensor]
            value = self._value(node.rhs, bound)
            written[at] = written.get(at, 0) + value if node.op else value

    def _loop(self, index: str, body: Statement, bound: dict[str, int]) -> None:
        """Loop over the coordinates stored in stepped tensors if the body needs one of them, else over the extent."""
        steppers = [access for access in dict.fromkeys(map(_bare, reads(body))) if self._steps(access, index)]
        absent = {access.tensor for access in steppers}
        if steppers and not _survives(body, absent):
            turns = sorted({value for access in steppers for value in self._stored(access, index, bound)})
        else:
            turns = list(range(self.extents[index]))
        for value in turns:
            self.n_visited += 1
            self._statement(body, {**bound, index: value})

    def _steps(self, access: TensorAccess, index: str) -> bool:
        protocols = self.steps.get(access, "")
        return index in access.indices and bool(protocols) and protocols[access.indices.index(index)] == "s"

    def _stored(self, access: TensorAccess, index: str, bound: Bound) -> set[int]:
        """Return the coordinates at `index` of the entries that match the bound indices."""
        mode = access.indices.index(index)
        fixed = [(m, bound[i]) for m, i in enumerate(access.indices) if i in bound]
        entries = self.sparse.get(access.tensor, {})
        return {at[mode] for at in entries if all(at[m] == value for m, value in fixed)}

    def _is_alive(self, node: Expression, bound: Bound) -> bool:
        if isinstance(node, TensorAccess):
            return node.tensor in self.dense or tuple(bound[i] for i in node.indices) in self.sparse[node.tensor]
        parts = [self._is_alive(arg, bound) for arg in node.args]
        return all(parts) if node.op == "*" else any(parts)

    def _value(self, node: Expression, bound: Bound) -> Any:
        if isinstance(node, TensorAccess):
            at = tuple(bound[index] for index in node.indices)
            return self.dense[node.tensor][at] if node.tensor in self.dense else self.sparse[node.tensor].get(at, 0)
        parts = [self._value(arg, bound) for arg in node.args]
        return np.prod(parts) if node.op == "*" else sum(parts)


def _bare(access: TensorAccess) -> TensorAccess:
    return TensorAccess(access.tensor, access.indices)


def _survives(node: Statement | Expression, absent: set[str]) -> bool:
    """Return whether any work is left if the tensors `absent` are zero."""
    if isinstance(node, Loop):
        return _survives(node.body, absent)
    if isinstance(node, Where):
        gone = set() if _survives(node.producer, absent) else {node.workspace}
        return _survives(node.consumer, absent | gone)
    if isinstance(node, Assign):
        return _survives(node.rhs, absent)
    if isinstance(node, TensorAccess):
        return node.tensor not in absent
    parts = [_survives(arg, absent) for arg in node.args]
    return all(parts) if node.op == "*" else any(parts)
