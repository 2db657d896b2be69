"""Cost of programs by abstract interpretation: the set of tasks that run, as queries over the inputs' patterns.

All protocol choices of a program are interpreted at once. Alternatives with equal tasks are merged and counted, so that
millions of programs take thousands of steps.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple, TypeAlias

from autosparse.contraction.assignments import TensorAssignment
from autosparse.contraction.cin.nodes import Assign, Expression, Loop, Statement, TensorAccess, Where, reads, target
from autosparse.contraction.cost.queries import FALSE, Predicate, Predicates
from autosparse.contraction.cost.tasks import TaskSets, bits


class Context(NamedTuple):
    """State in which a statement is reached: the guard, the reads assumed zero, and the patterns of workspaces."""

    guard: Predicate
    zeros: int
    states: tuple[tuple[int, Predicate], ...]

    def narrowed(self, reads: int) -> Context:
        """Return the part of this context on which a statement with these reads depends."""
        states = self.states
        for bit, _ in states:
            if not reads >> bit & 1:
                states = tuple([one for one in states if reads >> one[0] & 1])
                break
        zeros = self.zeros & reads
        return self if zeros == self.zeros and states is self.states else Context(self.guard, zeros, states)


Outcomes: TypeAlias = dict[tuple[int, tuple[Predicate, ...]], int]
"""Number of choices of protocols, by the set of their tasks and the pattern that they write in each context."""

Steps: TypeAlias = Mapping[TensorAccess, str]
"""Protocols chosen for accesses (keys carry no protocols). In `ContractionCostModel`, an access without an entry never
steps."""


class ContractionCostModel:
    """Cost model of the programs of one assignment."""

    def __init__(self, assignment: TensorAssignment) -> None:
        self.assignment = assignment
        self.indices = assignment.indices
        self._bit = {index: n for n, index in enumerate(self.indices)}
        self.predicates = Predicates(len(self.indices))
        tensors = {access.tensor: len(access.indices) for access in assignment.inputs}
        assumed = self.predicates.conjunction(
            (tensor, tuple(100 * (n + 1) + m for m in range(rank))) for n, (tensor, rank) in enumerate(tensors.items())
        )
        self.sets = TaskSets(self.predicates, self.indices, assumed)
        self._reads: dict[tuple[str, tuple[str, ...]], int] = {}
        self._read_list: list[TensorAccess] = []
        self._nodes: dict[Statement, _Node] = {}
        self._memo: dict[tuple[int, int, tuple[Context, ...], object], Outcomes] = {}
        self._steps: Steps | None = None
        self.sunk = self._sunk()

    def costs(self, program: Statement, *, steps: Steps | None = None) -> dict[int, int]:
        """Return {minimal set of tasks: number of protocol choices of `program` with this cost}, sunk costs included.

        `steps` fixes the protocols of the reads, which gives a single cost.
        """
        self._steps = steps
        start = (Context(self.predicates.true, 0, ()),)
        found: dict[int, int] = {}
        for (tasks, _), count in self._visit(self._node(program), 0, start).items():
            cost = self.sets.minimal(tasks | self.sunk)
            found[cost] = found.get(cost, 0) + count
        return found

    def _sunk(self) -> int:
        tasks = 0
        for bit in self._bit.values():
            tasks |= self.sets.emit(1 << bit, self.predicates.true)
        for access in self.assignment.inputs:
            guard = (self.predicates.conjunction([(access.tensor, tuple(self._bit[i] for i in access.indices))]),)
            tasks |= self.sets.emit(self._mask(access.indices), guard)
        return tasks

    # --- the interpreter ---

    def _visit(self, node: _Node, bound: int, contexts: tuple[Context, ...]) -> Outcomes:
        contexts = tuple([context.narrowed(node.reads) for context in contexts])
        fixed: object = None
        if self._steps is not None:
            if node.accesses is None:
                node.accesses = tuple(self._read_list[bit] for bit in bits(node.reads))
            fixed = tuple(map(self._steps.get, node.accesses))
        key = (node.number, bound, contexts, fixed)
        found = self._memo.get(key)
        if found is None:
            found = self._memo[key] = self._visit_once(node, bound, contexts)
        return found

    def _visit_once(self, node: _Node, bound: int, contexts: tuple[Context, ...]) -> Outcomes:
        if node.parts is None:
            assert isinstance(node.statement, Assign)
            hidden = bound & ~self._mask(node.statement.lhs.indices)
            tasks, written = 0, []
            for context in contexts:
                tasks |= self.sets.emit(bound, context.guard)
                written.append(self.predicates.exists(context.guard, hidden) if node.is_workspace else FALSE)
            return {(tasks, tuple(written)): 1}
        if isinstance(node.statement, Where):
            return self._visit_where(node, bound, contexts)
        return self._visit_loop(node, bound, contexts)

    def _visit_where(self, node: _Node, bound: int, contexts: tuple[Context, ...]) -> Outcomes:
        assert node.parts is not None
        consumer, producer = node.parts
        alive = [context for context in contexts if producer.is_alive(context.zeros)]
        found: Outcomes = {}
        for (made, states), n_made in self._visit(producer, bound, tuple(alive)).items():
            state_of = dict(zip(alive, states, strict=True))
            entered = tuple(
                context._replace(states=(*context.states, (node.bit, state_of.get(context, FALSE))))
                for context in contexts
            )
            for (used, written), n_used in self._visit(consumer, bound, entered).items():
                key = (self.sets.minimal(made | used), written)
                found[key] = found.get(key, 0) + n_made * n_used
        return found

    def _visit_loop(self, node: _Node, bound: int, contexts: tuple[Context, ...]) -> Outcomes:
        assert node.parts is not None
        body = node.parts[0]
        bound |= 1 << node.bit
        found: Outcomes = {}
        for steppers, n_ways in self._choices(body, node.bit):
            tasks = 0
            inner: dict[Context, int] = {}
            owned = []
            for context in contexts:
                reached, cost = self._cases(body, bound, context, steppers)
                tasks |= cost
                owned.append([inner.setdefault(case, len(inner)) for case in reached])
            for (done, states), count in self._visit(body, bound, tuple(inner)).items():
                written = []
                for cases in owned:
                    state = FALSE
                    for case in cases:
                        state = self.predicates.either(state, states[case])
                    written.append(state)
                key = (self.sets.minimal(tasks | done), tuple(written))
                found[key] = found.get(key, 0) + count * n_ways
        return found

    def _cases(self, body: _Node, bound: int, context: Context, steppers: int) -> tuple[list[Context], int]:
        """Return the contexts in which `body` is reached from `context` if `steppers` step, and the loop's tasks."""
        predicates = self.predicates
        steppers &= body.live(context.zeros)
        if not steppers:
            return [context], self.sets.emit(bound, context.guard)
        tasks = 0
        states = dict(context.states)
        stepped = {bit: self._pattern(bit, bound, states) for bit in bits(steppers)}
        for pattern in stepped.values():
            tasks |= self.sets.emit(bound, predicates.both(context.guard, pattern))
        reached = []
        for zeros in _subsets(steppers):
            if not body.is_alive(context.zeros | zeros):
                continue
            guard = context.guard
            for bit in bits(steppers & ~zeros):
                guard = predicates.both(guard, stepped[bit])
            if guard:
                reached.append(Context(guard, context.zeros | zeros, context.states))
        return reached, tasks

    def _pattern(self, bit: int, bound: int, states: Mapping[int, Predicate]) -> Predicate:
        """Return the condition on the bound indices for the read number `bit` to have any nonzero."""
        access = self._read_list[bit]
        if bit in states:
            return self.predicates.exists(states[bit], self._mask(access.indices) & ~bound)
        names = tuple(self._bit[i] if bound >> self._bit[i] & 1 else 50 + n for n, i in enumerate(access.indices))
        return (self.predicates.conjunction([(access.tensor, names)]),)

    # --- choices of protocols ---

    def _choices(self, body: _Node, index: int) -> Iterator[tuple[int, int]]:
        """Yield (mask of the reads in `body` that step at the loop over `index`, number of protocol choices).

        The loop iterates over the stored coordinates of reads that step; other reads are looked up.
        """
        here = [bit for bit in bits(body.reads) if self.indices[index] in self._read_list[bit].indices]
        if self._steps is None:
            yield from ((chosen, 1) for chosen in _subsets(sum(1 << bit for bit in here)))
            return
        chosen = 0
        for bit in here:
            access = self._read_list[bit]
            protocols = self._steps.get(access, "")
            if protocols and protocols[access.indices.index(self.indices[index])] == "s":
                chosen |= 1 << bit
        yield chosen, 1

    # --- compiled statements ---

    def _node(self, statement: Statement) -> _Node:
        known = self._nodes.get(statement)
        if known is not None:
            return known
        if isinstance(statement, Loop):
            rest = statement.indices[1:]
            body = self._node(Loop(rest, statement.body) if rest else statement.body)
            node = _Node(len(self._nodes), statement, (body,), bit=self._bit[statement.indices[0]])
        elif isinstance(statement, Where):
            parts = (self._node(statement.consumer), self._node(statement.producer))
            node = _Node(len(self._nodes), statement, parts, bit=self._read(target(statement.producer)))
        else:
            expression = _Expression.of(statement.rhs, self._read_of)
            node = _Node(len(self._nodes), statement, None, expression=expression)
            node.is_workspace = statement.lhs.tensor[0] == "w"
        self._nodes[statement] = node
        return node

    def _read_of(self, access: TensorAccess) -> int | None:
        return self._read(access) if self.assignment.is_sparse(access.tensor) else None

    def _read(self, access: TensorAccess) -> int:
        key = (access.tensor, access.indices)
        bit = self._reads.setdefault(key, len(self._reads))
        if bit == len(self._read_list):
            self._read_list.append(TensorAccess(*key))
        return bit

    def _mask(self, names: Sequence[str]) -> int:
        mask = 0
        for name in names:
            mask |= 1 << self._bit[name]
        return mask


def concordances(program: Statement, outer: tuple[str, ...] = ()) -> Iterator[tuple[TensorAccess, tuple[int, ...]]]:
    """Yield every read, without protocols, and its modes in loop order; `outer` are the loops around `program`."""
    if isinstance(program, Loop):
        yield from concordances(program.body, outer + program.indices)
    elif isinstance(program, Where):
        yield from concordances(program.consumer, outer)
        yield from concordances(program.producer, outer)
    else:
        for access in reads(program.rhs):
            order = sorted(range(len(access.indices)), key=lambda mode: outer.index(access.indices[mode]))
            yield TensorAccess(access.tensor, access.indices), tuple(order)


def _subsets(mask: int) -> Iterator[int]:
    """Yield every bit mask that is a subset of `mask`, from 0 to `mask` itself."""
    subset = 0
    while True:
        yield subset
        if subset == mask:
            return
        subset = (subset - mask) & mask


class _Expression(NamedTuple):
    """Expression tree reduced to its operators and sparse reads, to find which reads remain if some are zero."""

    op: str  # "", "*" or "+"
    bit: int | None  # bit of a sparse access; None for a dense tensor
    args: tuple[_Expression, ...]

    @classmethod
    def of(cls, node: Expression, read: Callable[[TensorAccess], int | None]) -> _Expression:
        if isinstance(node, TensorAccess):
            return cls("", read(node), ())
        return cls(node.op, None, tuple(cls.of(arg, read) for arg in node.args))

    def reads(self) -> int:
        mask = 0 if self.bit is None else 1 << self.bit
        for arg in self.args:
            mask |= arg.reads()
        return mask

    def live(self, zeros: int) -> int | None:
        """Return the mask of reads that remain if those in `zeros` are zero; None if the expression is then zero."""
        if not self.op:
            if self.bit is None:
                return 0
            return None if zeros >> self.bit & 1 else 1 << self.bit
        left = [arg.live(zeros) for arg in self.args]
        if all(part is None for part in left) or (self.op == "*" and None in left):
            return None
        mask = 0
        for part in left:
            mask |= part or 0
        return mask


class _Node:
    """Statement with cached properties that the interpreter looks up repeatedly."""

    __slots__ = (
        "_live", "accesses", "bit", "expression", "is_workspace", "number", "parts", "reads", "statement",
    )  # fmt: skip

    def __init__(
        self, number: int, statement: Statement, parts: tuple[_Node, ...] | None, *, bit: int = 0,
        expression: _Expression | None = None,
    ) -> None:  # fmt: skip
        self.number, self.statement, self.parts, self.bit, self.expression = number, statement, parts, bit, expression
        self.is_workspace = False
        self.accesses: tuple[TensorAccess, ...] | None = None  # accesses of its reads
        self.reads = expression.reads() if expression is not None else 0
        for part in parts or ():
            self.reads |= part.reads
        self._live: dict[int, int | None] = {}

    def is_alive(self, zeros: int) -> bool:
        """Return whether the statement still computes something if the reads in the mask `zeros` are zero."""
        return self._left(zeros & self.reads) is not None

    def live(self, zeros: int) -> int:
        """Return the mask of reads that still matter if those in the mask `zeros` are zero."""
        return self._left(zeros & self.reads) or 0

    def _left(self, zeros: int) -> int | None:
        if zeros in self._live:
            return self._live[zeros]
        left: int | None
        if self.expression is not None:
            left = self.expression.live(zeros)
        else:
            assert self.parts is not None
            first, *rest = (part._left(zeros & part.reads) for part in self.parts)
            left = None if first is None else first | ((rest[0] or 0) if rest else 0)
        self._live[zeros] = left
        return left
