"""Candidate programs of an einsum: the frontier of runnable programs, from a stored table or by enumeration."""

from __future__ import annotations

import functools
import gzip
import json
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import resources
from typing import Any, Final

from autosparse.contraction.assignments import TensorAssignment
from autosparse.contraction.cin.nodes import (
    Assign,
    Expression,
    Loop,
    OperatorCall,
    Statement,
    TensorAccess,
    assignments,
    mapped,
    reads,
)
from autosparse.contraction.cin.parser import parse
from autosparse.contraction.cost.model import ContractionCostModel, Steps
from autosparse.contraction.cost.tasks import PlainQuery, undominated
from autosparse.contraction.programs.bodies import bodies
from autosparse.contraction.programs.nests import n_orders, nests, orders, workspaces
from autosparse.contraction.programs.protocols import taco_protocols, with_protocols


@dataclass(frozen=True, slots=True)
class Listed:
    """Enumerated program with the protocols of its reads."""

    program: Statement
    steps: Steps

    def __str__(self) -> str:
        return str(with_protocols(self.program, self.steps))


@dataclass(frozen=True, slots=True)
class EinsumCandidate(Listed):
    """Enumerated program with the protocols of its reads; `cost` is a set of tasks, as a bit mask of queries."""

    cost: int


@dataclass(frozen=True, slots=True)
class Candidates:
    """Frontier of one set of subscripts, and the number of programs it was selected from."""

    assignment: TensorAssignment
    queries: tuple[PlainQuery, ...]  # one per bit of the members' costs
    members: tuple[EinsumCandidate, ...]
    n_programs: int


MANY: Final = 4
"""Number of operands from which a new expression is searched with fewer protocols: a full search takes seconds."""
MAX_PROGRAMS: Final = 8192
"""Maximum number of programs of a new expression; above it, a pair of operands is contracted first."""
MAX_INDICES: Final = 6
"""Maximum number of indices of a new expression; six indices have 720 loop orders."""


def name_of(n: int) -> str:
    """Return the name of operand n in programs."""
    return f"T{n}"


def assignment_of(inputs: tuple[str, ...], output: str, sparse: tuple[bool, ...]) -> TensorAssignment:
    """Return the assignment ``R[output] += T0[...] * T1[...] * ...`` of these subscripts."""
    accesses = tuple(TensorAccess(name_of(n), tuple(letters)) for n, letters in enumerate(inputs))
    product: Expression = OperatorCall("*", accesses) if len(accesses) > 1 else accesses[0]
    names = {name_of(n) for n, is_sparse in enumerate(sparse) if is_sparse}
    return TensorAssignment(
        Assign(TensorAccess("R", tuple(output)), "+", product), frozenset({"R", *names} if output else names)
    )


@functools.lru_cache(maxsize=256)
def candidates(inputs: tuple[str, ...], output: str, sparse: tuple[bool, ...]) -> Candidates:
    """Return the non-dominated programs of minimum loop depth whose workspaces have rank 0 or 1."""
    assignment = assignment_of(inputs, output, sparse)
    key, names = signature(inputs, output, sparse)
    row = _frontiers().get(key)
    return enumerated(assignment, is_thorough=len(inputs) < MANY) if row is None else _read(assignment, row, names)


def listed(text: str, inputs: tuple[str, ...], output: str, sparse: tuple[bool, ...]) -> Listed | None:
    """Return the enumerated program whose text equals `text`, or None.

    The text is compared and never parsed, because it may come from a cache file of unknown origin.
    """
    row = _frontiers().get(signature(inputs, output, sparse)[0])
    if row is not None:
        return next((one for one in candidates(inputs, output, sparse).members if str(one) == text), None)
    if not is_searchable(inputs, output, sparse):
        return None
    assignment = assignment_of(inputs, output, sparse)
    for program in (program for nest in _small_nests(assignment) for program in orders(nest)):
        for steps in _protocols(assignment, program, is_thorough=len(inputs) < MANY):
            one = Listed(program, steps)
            if str(one) == text:
                return one
    return None


@functools.lru_cache(maxsize=1024)
def is_searchable(inputs: tuple[str, ...], output: str, sparse: tuple[bool, ...]) -> bool:
    """Return whether the frontier is in the stored table or can be found among at most `MAX_PROGRAMS` programs."""
    key, names = signature(inputs, output, sparse)
    if key in _frontiers():
        return True
    if len(names) > MAX_INDICES:
        return False
    choices = 2 ** (sum(sparse) + (len(inputs) < MANY))  # of inputs, and of a workspace if the search is thorough
    n_programs: int = sum(n_orders(nest) * choices for nest in _small_nests(assignment_of(inputs, output, sparse)))
    return n_programs <= MAX_PROGRAMS


def signature(inputs: tuple[str, ...], output: str, sparse: tuple[bool, ...]) -> tuple[str, dict[str, str]]:
    """Return the key of these subscripts in the stored table, and the key's letter for each given letter.

    The key has letters renamed in order of appearance, and ``s`` or ``d`` for each sparse or dense operand.
    """
    names: dict[str, str] = {}
    for index in "".join(inputs) + output:
        names.setdefault(index, chr(ord("a") + len(names)))
    text = ",".join("".join(names[index] for index in letters) for letters in inputs)
    kinds = "".join("s" if is_sparse else "d" for is_sparse in sparse)
    return f"{text}->{''.join(names[index] for index in output)} {kinds}", names


@functools.lru_cache(maxsize=1)
def _frontiers() -> dict[str, dict[str, Any]]:
    packed = resources.files("autosparse.contraction").joinpath("frontiers.json.gz").read_bytes()
    found: dict[str, dict[str, Any]] = json.loads(gzip.decompress(packed))
    return found


def _with_letters(node: Statement, names: dict[str, str]) -> Statement:
    def renamed(one: TensorAccess) -> TensorAccess:
        return TensorAccess(one.tensor, tuple(names[index] for index in one.indices), one.protocols)

    return mapped(node, renamed, renamed, names)


def _read(assignment: TensorAssignment, row: dict[str, Any], names: dict[str, str]) -> Candidates:
    """Return the candidates of a row of the stored table, with its letters replaced by those of `assignment`.

    `names` maps the letters of `assignment` to those of the row.
    """
    back = {new: old for old, new in names.items()}
    place = {new: assignment.indices.index(old) for old, new in names.items()}
    moved = [place[new] for new in sorted(place)]  # a row's variables are its letters, sorted

    def variable(one: int) -> int:
        return moved[one] if one < len(moved) else one

    queries = tuple(
        PlainQuery(
            sum(1 << place[index] for index in heads),
            tuple((tensor, tuple(map(variable, args))) for tensor, *args in atoms),
        )
        for heads, atoms in row["queries"]
    )
    members = []
    for text, numbers in row["members"]:
        marked = _with_letters(parse(text), back)
        steps = {
            TensorAccess(one.tensor, one.indices): one.protocols
            for one in reads(marked)
            if assignment.is_sparse(one.tensor)
        }
        members.append(EinsumCandidate(with_protocols(marked, {}), steps, sum(1 << number for number in numbers)))
    return Candidates(assignment, queries, tuple(members), row["n_programs"])


def enumerated(assignment: TensorAssignment, *, is_thorough: bool = True) -> Candidates:
    """Enumerate candidates of a new expression; workspaces next to other reads are stepped only if `is_thorough`."""
    model = ContractionCostModel(assignment)
    found: list[EinsumCandidate] = []
    for program in (program for nest in _small_nests(assignment) for program in orders(nest)):
        for steps in _protocols(assignment, program, is_thorough=is_thorough):
            (cost,) = model.costs(program, steps=steps)
            found.append(EinsumCandidate(program, steps, cost))
    best = set(undominated(model.sets, {candidate.cost for candidate in found}))
    merges = [candidate for candidate in found if is_merge(candidate)]
    shortest = set(undominated(model.sets, {candidate.cost for candidate in merges}))
    members = tuple(
        candidate
        for candidate in found
        if candidate.cost in best or (candidate.cost in shortest and is_merge(candidate))
    )
    return Candidates(assignment, model.sets.plain, members, len(found))


def is_merge(candidate: EinsumCandidate) -> bool:
    """Return whether the innermost of all loops steps through exactly two of at least three sparse reads together.

    The cost model counts the steps through both inputs, while kernels take about as many as the shorter one has. Such
    programs are therefore kept although others dominate them.
    """
    program = candidate.program
    if not isinstance(program, Loop) or not isinstance(program.body, Assign):
        return False
    innermost = program.indices[-1]
    readers = [access for access in candidate.steps if innermost in access.indices]
    return (
        len(readers) == 2
        and len(candidate.steps) > 2
        and all(candidate.steps[access][access.indices.index(innermost)] == "s" for access in readers)
    )


@functools.lru_cache(maxsize=8)  # called once to count programs and once to cost them
def _small_nests(assignment: TensorAssignment) -> tuple[Statement, ...]:
    statement = assignment.statement
    found = nests(bodies(statement.lhs, statement.op, statement.rhs), assignment.indices, keep_outer=False)
    return tuple(nest for nest in found if _has_small_workspaces(nest) and _is_orderly(nest))


def _has_small_workspaces(program: Statement) -> bool:
    """Return whether every workspace has rank 0 or 1; kernels can run larger ones, but they are never chosen."""
    return all(len(access.indices) <= 1 for access in workspaces(program).values())


def _is_orderly(program: Statement) -> bool:
    """Return whether no assignment reads a tensor twice."""
    return all(
        len({access.tensor for access in reads(assign.rhs)}) == len(list(reads(assign.rhs)))
        for assign in assignments(program)
    )


def _protocols(assignment: TensorAssignment, program: Statement, *, is_thorough: bool) -> Iterator[Steps]:
    """Yield the distinct protocol choices of the TACO compiler, with fewer choices for workspaces.

    A workspace that is an assignment's only read is stepped through. Other workspaces may be stepped or located if
    `is_thorough`, else they are located.
    """
    alone = {access.tensor for assign in assignments(program) for access in reads(assign.rhs) if assign.rhs == access}
    seen = set()
    for steps in taco_protocols(assignment, program):
        protocols = {}
        for access, letters in steps.items():
            is_open = access.tensor[0] != "w" or (is_thorough and access.tensor not in alone)
            protocols[access] = letters if is_open else ("s" if access.tensor in alone else "l") * len(access.indices)
        key = tuple(protocols.items())
        if key not in seen:
            seen.add(key)
            yield protocols
