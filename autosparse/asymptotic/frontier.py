"""The frontier: programs that no other beats on all inputs, and what was counted on the way."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from autosparse.asymptotic.cin.nodes import Statement
from autosparse.asymptotic.cost.model import CostModel, Rules, Steps
from autosparse.asymptotic.cost.tasks import TaskSets
from autosparse.asymptotic.kernels import Kernel
from autosparse.asymptotic.programs.bodies import bodies
from autosparse.asymptotic.programs.nests import nests, orders
from autosparse.asymptotic.programs.protocols import all_protocols, fits_taco, is_shaped_for_taco, taco_protocols


@dataclass(frozen=True, slots=True)
class Member:
    """One program of the frontier: loops and protocols, its cost, and the number of equally good ones' class."""

    program: Statement
    steps: Steps
    cost: int
    rank: int


@dataclass(frozen=True, slots=True)
class Frontier:
    """Counts over all programs, and the classes of equal cost that none strictly beats."""

    model: CostModel
    nests: tuple[Statement, ...]  # with their loops in order
    n_programs: int
    n_frontier: int
    n_classes: int
    classes: tuple[int, ...]

    def members(self) -> Iterator[Member]:
        """Every program of the frontier."""
        ranks = {cost: rank for rank, cost in enumerate(self.classes)}
        for nest in self.nests:
            for steps in all_protocols(self.model.kernel, nest):
                (cost,) = self.model.costs(nest, steps=steps)
                if cost in ranks:
                    yield Member(nest, steps, cost, ranks[cost])


def full_frontier(kernel: Kernel, *, keep_outer: bool, rules: Rules = Rules()) -> Frontier:  # noqa: B008
    """All programs of least depth, with all protocols."""
    model = CostModel(kernel, rules)
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


def taco_frontier(kernel: Kernel, *, keep_outer: bool = False, rules: Rules = Rules()) -> Frontier:  # noqa: B008
    """Those of them that the TACO compiler can run."""
    model = CostModel(kernel, rules)
    counts: Counter[int] = Counter()
    kept = []
    for program in programs(kernel, keep_outer=keep_outer):
        if is_shaped_for_taco(kernel, program):
            for steps in taco_protocols(kernel, program):
                if fits_taco(kernel, program, steps):
                    counts.update(model.costs(program, steps=steps))
                    kept.append(program)
    return _frontier(model, tuple(dict.fromkeys(kept)), counts, undominated(model.sets, counts))


def programs(kernel: Kernel, *, keep_outer: bool) -> tuple[Statement, ...]:
    """Loop nests of least depth in every order, before protocols are chosen."""
    return tuple(program for nest in least_deep(kernel, keep_outer=keep_outer) for program in orders(nest))


def least_deep(kernel: Kernel, *, keep_outer: bool) -> tuple[Statement, ...]:
    """Loop nests of least depth, each in one of its orders."""
    statement = kernel.statement
    rewritten = bodies(statement.lhs, statement.op, statement.rhs)
    return nests(rewritten, kernel.indices, keep_outer=keep_outer)


def undominated(sets: TaskSets, costs: Iterable[int]) -> tuple[int, ...]:
    """Costs that no other cost is strictly contained in."""
    frontier: list[int] = []
    for cost in sorted(costs, key=lambda tasks: (tasks.bit_count(), tasks)):
        if any(sets.is_within(best, cost) and not sets.is_within(cost, best) for best in frontier):
            continue
        frontier = [best for best in frontier if not sets.is_within(cost, best) or sets.is_within(best, cost)]
        frontier.append(cost)
    return tuple(frontier)


def _frontier(
    model: CostModel, kept: tuple[Statement, ...], counts: Counter[int], classes: tuple[int, ...]
) -> Frontier:
    n_frontier = sum(counts[cost] for cost in classes)
    return Frontier(model, kept, counts.total(), n_frontier, len(counts), classes)
