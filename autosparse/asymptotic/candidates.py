"""Programs that kernels can run, for one pattern of subscripts: the frontier of those, by class of cost."""

from __future__ import annotations

import functools
import json
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import resources
from typing import Any, Final

from autosparse.asymptotic.cin.nodes import Access, Assign, Call, Expression, Loop, Statement, Where, assignments, reads
from autosparse.asymptotic.cin.parser import parse
from autosparse.asymptotic.cost.model import CostModel, Steps
from autosparse.asymptotic.cost.tasks import TaskSets
from autosparse.asymptotic.frontier import programs, undominated
from autosparse.asymptotic.kernels import Kernel
from autosparse.asymptotic.programs.nests import workspaces
from autosparse.asymptotic.programs.protocols import taco_protocols, with_protocols


@dataclass(frozen=True, slots=True)
class Candidate:
    """A program with its protocols and the tasks that it costs."""

    program: Statement
    steps: Steps
    cost: int

    def __str__(self) -> str:
        return str(with_protocols(self.program, self.steps))


@dataclass(frozen=True, slots=True)
class Candidates:
    """The frontier of one pattern of subscripts."""

    kernel: Kernel
    sets: TaskSets
    members: tuple[Candidate, ...]
    n_programs: int


MANY: Final = 4
"""Operands from which a new expression is not searched thoroughly: that takes seconds (docs/adr/0034)."""


def name_of(n: int) -> str:
    """Name of operand n in programs."""
    return f"T{n}"


def kernel_of(inputs: tuple[str, ...], output: str, sparse: tuple[bool, ...]) -> Kernel:
    """``R[output] += T0[...] * T1[...] * ...``."""
    accesses = tuple(Access(name_of(n), tuple(letters)) for n, letters in enumerate(inputs))
    product: Expression = Call("*", accesses) if len(accesses) > 1 else accesses[0]
    names = {name_of(n) for n, is_sparse in enumerate(sparse) if is_sparse}
    return Kernel(Assign(Access("R", tuple(output)), "+", product), frozenset({"R", *names} if output else names))


@functools.lru_cache(maxsize=256)
def candidates(inputs: tuple[str, ...], output: str, sparse: tuple[bool, ...]) -> Candidates:
    """Every program of least depth with workspaces of rank 0 or 1 that no other such program strictly beats."""
    kernel = kernel_of(inputs, output, sparse)
    shipped = _shipped(inputs, output, sparse)
    return enumerated(kernel, is_thorough=len(inputs) < MANY) if shipped is None else _read(kernel, *shipped)


def signature(inputs: tuple[str, ...], output: str, sparse: tuple[bool, ...]) -> tuple[str, dict[str, str]]:
    """Subscripts with letters in order of appearance and a letter per operand for its kind, and the new letters."""
    names: dict[str, str] = {}
    for index in "".join(inputs) + output:
        names.setdefault(index, chr(ord("a") + len(names)))
    text = ",".join("".join(names[index] for index in letters) for letters in inputs)
    kinds = "".join("s" if is_sparse else "d" for is_sparse in sparse)
    return f"{text}->{''.join(names[index] for index in output)} {kinds}", names


@functools.lru_cache(maxsize=1)
def _frontiers() -> dict[str, list[Any]]:
    text = resources.files("autosparse.asymptotic").joinpath("frontiers.json").read_text(encoding="utf-8")
    found: dict[str, list[Any]] = json.loads(text)
    return found


def _shipped(inputs: tuple[str, ...], output: str, sparse: tuple[bool, ...]) -> tuple[int, list[Statement]] | None:
    """Number of programs and frontier of a named expression, found once and kept with the package."""
    key, names = signature(inputs, output, sparse)
    row = _frontiers().get(key)
    if row is None:
        return None
    back = {new: old for old, new in names.items()}
    return row[0], [_with_letters(parse(text), back) for text in row[1]]


def _with_letters(node: Statement, names: dict[str, str]) -> Statement:
    if isinstance(node, Loop):
        return Loop(tuple(names[index] for index in node.indices), _with_letters(node.body, names))
    if isinstance(node, Where):
        return Where(_with_letters(node.consumer, names), _with_letters(node.producer, names))

    def renamed(one: Expression) -> Expression:
        if isinstance(one, Call):
            return Call(one.op, tuple(map(renamed, one.args)))
        return Access(one.tensor, tuple(names[index] for index in one.indices), one.protocols)

    return Assign(renamed(node.lhs), node.op, renamed(node.rhs))  # type: ignore[arg-type]  # an access stays one


def _read(kernel: Kernel, n_programs: int, texts: list[Statement]) -> Candidates:
    """Candidates from programs that are known to be the frontier."""
    model = CostModel(kernel)
    members = []
    for marked in texts:
        steps = {
            Access(one.tensor, one.indices): one.protocols for one in reads(marked) if kernel.is_sparse(one.tensor)
        }
        program = with_protocols(marked, {})
        (cost,) = model.costs(program, steps=steps)
        members.append(Candidate(program, steps, cost))
    return Candidates(kernel, model.sets, tuple(members), n_programs)


def enumerated(kernel: Kernel, *, is_thorough: bool = True) -> Candidates:
    """Candidates of a new expression; workspaces beside other reads are only located unless `is_thorough`."""
    model = CostModel(kernel)
    found: list[Candidate] = []
    for program in programs(kernel, keep_outer=False):
        if _has_small_workspaces(program) and _is_orderly(program):
            for steps in _protocols(kernel, program, is_thorough=is_thorough):
                (cost,) = model.costs(program, steps=steps)
                found.append(Candidate(program, steps, cost))
    best = set(undominated(model.sets, {candidate.cost for candidate in found}))
    members = tuple(candidate for candidate in found if candidate.cost in best)
    return Candidates(kernel, model.sets, members, len(found))


def _has_small_workspaces(program: Statement) -> bool:
    """Whether every workspace has rank 0 or 1: larger ones are run (ADR 34), not chosen."""
    return all(len(access.indices) <= 1 for access in workspaces(program).values())


def _is_orderly(program: Statement) -> bool:
    """No workspace is read twice by one assignment."""
    return all(
        len({access.tensor for access in reads(assign.rhs)}) == len(list(reads(assign.rhs)))
        for assign in assignments(program)
    )


def _protocols(kernel: Kernel, program: Statement, *, is_thorough: bool) -> Iterator[Steps]:
    """Those of the TACO compiler; a workspace may be stepped through or located (alone: stepped through)."""
    alone = {access.tensor for assign in assignments(program) for access in reads(assign.rhs) if assign.rhs == access}
    seen = set()
    for steps in taco_protocols(kernel, program):
        settled = {}
        for access, letters in steps.items():
            is_open = access.tensor[0] != "w" or (is_thorough and access.tensor not in alone)
            settled[access] = letters if is_open else ("s" if access.tensor in alone else "l") * len(access.indices)
        key = tuple(settled.items())
        if key not in seen:
            seen.add(key)
            yield settled
