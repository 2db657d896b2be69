"""Frontiers of the paper's kernels (Figure 6) with every choice of protocols, and with those of the TACO compiler."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from autosparse.contraction.assignments import TensorAssignment
from autosparse.contraction.cin.nodes import Assign, Loop, Statement, TensorAccess, Where, assignments, reads, target
from autosparse.contraction.cost.model import Context, ContractionCostModel, Outcomes, Steps, _Node, concordances
from autosparse.contraction.cost.queries import FALSE, Predicate
from autosparse.contraction.cost.tasks import undominated
from autosparse.contraction.programs.bodies import bodies
from autosparse.contraction.programs.nests import nests, orders
from autosparse.contraction.programs.protocols import open_reads, taco_protocols

NAMED: Final[Mapping[str, TensorAssignment]] = {
    "SpMV": TensorAssignment.of("a[i] += B[i,j] * c[j]", sparse="B"),
    "SpMV2": TensorAssignment.of("a[i] += B[i,j] * C[j,k] * d[k]", sparse="BC"),
    "SpGEMM": TensorAssignment.of("A[i,j] += B[i,k] * C[j,k]", sparse="ABC"),
    "SpGEMM2": TensorAssignment.of("A[i,j] += B[i,k] * C[k,l] * D[j,l]", sparse="ABCD"),
    "SpGEMMH": TensorAssignment.of("A[i,j] += B[i,k] * C[j,k] * D[j,k]", sparse="ABCD"),
    "SSpGEMM": TensorAssignment.of("A[i,j] += B[i,j] * C[i,k] * D[j,k]", sparse="ABCD"),
    "SpMTTKRP": TensorAssignment.of("A[i,j] += B[i,k,l] * C[j,k] * D[j,l]", sparse="ABCD"),
}
"""Kernels of the paper's Figure 6, and SSpGEMM of the authors' repository."""


@dataclass(frozen=True, slots=True)
class Member:
    """A program of the frontier: loops, protocols, cost, and the rank of its class of equal cost."""

    program: Statement
    steps: Steps
    cost: int
    rank: int


@dataclass(frozen=True, slots=True)
class Frontier:
    """Counts over all programs, and the classes of equal cost that no other class strictly beats."""

    model: ContractionCostModel
    nests: tuple[Statement, ...]  # loop nests with a fixed order of loops
    n_programs: int
    n_frontier: int
    n_classes: int
    classes: tuple[int, ...]

    def members(self) -> Iterator[Member]:
        """Yield every program of the frontier."""
        ranks = {cost: rank for rank, cost in enumerate(self.classes)}
        for nest in self.nests:
            for steps in all_protocols(self.model.assignment, nest):
                (cost,) = self.model.costs(nest, steps=steps)
                if cost in ranks:
                    yield Member(nest, steps, cost, ranks[cost])


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """Switches for parts of the cost model, used to measure the effect of each part."""

    has_dimension_costs: bool = True
    has_read_costs: bool = True
    has_permutation_bug: bool = False  # apply the permutation twice, as the published code does


class VariedCostModel(ContractionCostModel):
    """The cost model without some of its parts, or with the permutation bug of the published code."""

    def __init__(self, kernel: TensorAssignment, rules: Rules) -> None:
        self._rules = rules
        self._misread: dict[TensorAccess, tuple[int, ...]] = {}
        super().__init__(kernel)

    def costs(self, program: Statement, *, steps: Steps | None = None) -> dict[int, int]:
        """Return the costs of `program`; the atoms of misread accesses depend on it."""
        if self._rules.has_permutation_bug:
            self._misread = {read: order for read, order in concordances(program) if len(order) > 2}
            self._memo.clear()
        return super().costs(program, steps=steps)

    def _sunk(self) -> int:
        tasks = 0
        for bit in self._bit.values() if self._rules.has_dimension_costs else ():
            tasks |= self.sets.emit(1 << bit, self.predicates.true)
        for access in self.assignment.inputs if self._rules.has_read_costs else ():
            guard = self._condition(access, tuple(self._bit[i] for i in access.indices))
            tasks |= self.sets.emit(self._mask(access.indices), guard)
        return tasks

    def _condition(self, access: TensorAccess, names: tuple[int, ...]) -> Predicate:
        order = self._misread.get(access)
        names = names if order is None else tuple(names[order[order[n]]] for n in range(len(order)))
        return (self.predicates.conjunction([(access.tensor, names)]),)

    def _pattern(self, bit: int, bound: int, states: Mapping[int, Predicate]) -> Predicate:
        if bit in states:
            return super()._pattern(bit, bound, states)
        access = self._read_list[bit]
        names = tuple(self._bit[i] if bound >> self._bit[i] & 1 else 50 + n for n, i in enumerate(access.indices))
        return self._condition(access, names)

    def _visit_where(self, node: _Node, bound: int, contexts: tuple[Context, ...]) -> Outcomes:
        assert isinstance(node.statement, Where)
        pairs = misplaced(node.statement) if self._rules.has_permutation_bug else ()
        if not pairs:
            return super()._visit_where(node, bound, contexts)
        names, (consumer, producer) = {self._bit[i]: self._bit[j] for i, j in pairs}, node.parts or ()
        alive = [context for context in contexts if producer.is_alive(context.zeros)]
        found: Outcomes = {}
        for (made, states), n_made in self._visit(producer, bound, tuple(alive)).items():
            state_of = {context: self._renamed(state, names) for context, state in zip(alive, states, strict=True)}
            entered = tuple(
                context._replace(states=(*context.states, (node.bit, state_of.get(context, FALSE))))
                for context in contexts
            )
            for (used, written), n_used in self._visit(consumer, bound, entered).items():
                key = (self.sets.minimal(made | used), written)
                found[key] = found.get(key, 0) + n_made * n_used
        return found

    def _renamed(self, one: Predicate, names: Mapping[int, int]) -> Predicate:
        """Return the predicate `one` with its indices renamed simultaneously; `names` maps old numbers to new ones."""
        atoms = self.predicates.atoms
        return self.predicates._absorbed(
            self.predicates.conjunction(
                (tensor, tuple(names.get(v, v) for v in args)) for tensor, args in atoms[number]
            )
            for number in one
        )


def misplaced(where: Where) -> tuple[tuple[str, str], ...]:
    """Return the pairs (written, read) of a workspace's indices that the published code's permutation bug exchanges.

    The published code lists a workspace's indices in the consumer's loop order, inner loops first. It then sorts each
    access by its loops and applies the sort permutation twice.
    """
    written = target(where.producer)
    listed = [index for index in dict.fromkeys(_inner_first(where)) if index in written.indices]
    read = next(access for access in reads(where.consumer) if access.tensor == written.tensor)
    sides = []
    for access, statement in ((written, where.producer), (read, where.consumer)):
        bound = _around(access, statement) or ()
        order = sorted(range(len(listed)), key=lambda mode: bound.index(listed[mode]))
        sides.append([listed[order[n]] for n in order])
    return tuple((i, j) for i, j in zip(*sides, strict=True) if i != j)


def _inner_first(statement: Statement) -> Iterator[str]:
    if isinstance(statement, Loop):
        yield from _inner_first(statement.body)
        yield from statement.indices
    elif isinstance(statement, Where):
        yield from _inner_first(statement.consumer)
        yield from _inner_first(statement.producer)


def _around(access: TensorAccess, statement: Statement) -> tuple[str, ...] | None:
    """Return the indices of the loops in `statement` around the assignment with `access`, outermost first, or None."""
    if isinstance(statement, Loop):
        inner = _around(access, statement.body)
        return None if inner is None else statement.indices + inner
    if isinstance(statement, Where):
        found = _around(access, statement.consumer)
        return _around(access, statement.producer) if found is None else found
    return () if access == statement.lhs or access in reads(statement.rhs) else None


def full_frontier(kernel: TensorAssignment, *, keep_outer: bool, rules: Rules = Rules()) -> Frontier:
    """Return the frontier of all programs of least depth, with all protocols."""
    model = VariedCostModel(kernel, rules)
    found = programs(kernel, keep_outer=keep_outer)
    counts: Counter[int] = Counter()
    costs_of = []
    for program in found:
        costs = model.costs(program)
        counts.update(costs)
        costs_of.append(costs.keys())
    classes = undominated(model.sets, counts)
    kept = tuple(program for program, costs in zip(found, costs_of, strict=True) if not costs.isdisjoint(classes))
    return _frontier(model, kept, counts, classes)


def taco_frontier(kernel: TensorAssignment, *, keep_outer: bool = False, rules: Rules = Rules()) -> Frontier:
    """Return the frontier of those programs that the TACO compiler can run."""
    model = VariedCostModel(kernel, rules)
    counts: Counter[int] = Counter()
    kept = []
    for program in programs(kernel, keep_outer=keep_outer):
        if is_shaped_for_taco(kernel, program):
            for steps in taco_protocols(kernel, program):
                if fits_taco(kernel, program, steps):
                    counts.update(model.costs(program, steps=steps))
                    kept.append(program)
    return _frontier(model, tuple(dict.fromkeys(kept)), counts, undominated(model.sets, counts))


def programs(kernel: TensorAssignment, *, keep_outer: bool) -> tuple[Statement, ...]:
    """Return the loop nests of least depth in every order of loops, before protocols are chosen."""
    statement = kernel.statement
    found = nests(bodies(statement.lhs, statement.op, statement.rhs), kernel.indices, keep_outer=keep_outer)
    return tuple(program for nest in found for program in orders(nest))


def _frontier(
    model: ContractionCostModel, kept: tuple[Statement, ...], counts: Counter[int], classes: tuple[int, ...]
) -> Frontier:
    n_frontier = sum(counts[cost] for cost in classes)
    return Frontier(model, kept, counts.total(), n_frontier, len(counts), classes)


def all_protocols(kernel: TensorAssignment, program: Statement) -> Iterator[Steps]:
    """Yield every choice of protocols: step or locate at each mode of each read."""
    chosen = open_reads(kernel, program)
    letters = [list(map("".join, itertools.product("ls", repeat=len(access.indices)))) for access in chosen]
    for protocols in itertools.product(*letters):
        yield dict(zip(chosen, protocols, strict=True))


def fits_taco(kernel: TensorAssignment, program: Statement, steps: Steps) -> bool:
    """Return whether the TACO compiler can run the program, by the rules of the authors' code."""
    return is_shaped_for_taco(kernel, program) and all(
        _reads_workspaces_as_taco(assign, steps) for assign in assignments(program)
    )


def is_shaped_for_taco(kernel: TensorAssignment, program: Statement) -> bool:
    """Return whether loops and workspaces suit the TACO compiler: rank at most 1, one insert mode, one buffer."""
    inserted = dict(_insert_modes(kernel, program))
    buffers = sum(n_modes > 0 for access, n_modes in inserted.items() if len(access.indices) > 1)
    n_wheres = sum(access.tensor[0] == "w" for access in inserted)
    ranks = [len(access.indices) for access in inserted if access.tensor[0] == "w"]
    return max(ranks, default=0) <= 1 and max(inserted.values(), default=0) <= 1 and n_wheres + buffers <= 1


def _insert_modes(
    kernel: TensorAssignment, program: Statement, outer: tuple[str, ...] = ()
) -> Iterator[tuple[TensorAccess, int]]:
    """Yield each write of a sparse tensor with its number of insert modes.

    Insert modes are the written modes after the longest prefix that equals a prefix of the enclosing loops.
    """
    if isinstance(program, Loop):
        yield from _insert_modes(kernel, program.body, outer + program.indices)
    elif isinstance(program, Where):
        yield from _insert_modes(kernel, program.consumer, outer)
        yield from _insert_modes(kernel, program.producer, outer)
    elif kernel.is_sparse(program.lhs.tensor):
        written = sorted(program.lhs.indices, key=outer.index)
        n_appended = 0
        while n_appended < len(written) and written[n_appended] == outer[n_appended]:
            n_appended += 1
        yield program.lhs, len(written) - n_appended


def _reads_workspaces_as_taco(assign: Assign, steps: Steps) -> bool:
    """Return whether each workspace of rank 1 is located beside another read, and stepped through as the only read."""
    found = list(reads(assign.rhs))
    wanted = "l" if len(found) > 1 else "s"
    return all(
        steps[TensorAccess(access.tensor, access.indices)] == wanted
        for access in found
        if access.tensor[0] == "w" and len(access.indices) == 1
    )
