"""Select the frontier: programs whose cost no other program's cost is strictly contained in, for all inputs."""

from __future__ import annotations

from collections.abc import Iterable

from autosparse.contraction.cin.nodes import Statement
from autosparse.contraction.cost.tasks import TaskSets
from autosparse.contraction.kernels import TensorAssignment
from autosparse.contraction.programs.bodies import bodies
from autosparse.contraction.programs.nests import nests


def least_deep(kernel: TensorAssignment, *, keep_outer: bool) -> tuple[Statement, ...]:
    """Return the loop nests of minimum depth, each in one of its loop orders."""
    statement = kernel.statement
    rewritten = bodies(statement.lhs, statement.op, statement.rhs)
    return nests(rewritten, kernel.indices, keep_outer=keep_outer)


def undominated(sets: TaskSets, costs: Iterable[int]) -> tuple[int, ...]:
    """Return the costs in which no other cost is strictly contained."""
    frontier: list[int] = []
    for cost in sorted(costs, key=lambda tasks: (tasks.bit_count(), tasks)):
        if any(sets.is_within(best, cost) and not sets.is_within(cost, best) for best in frontier):
            continue
        frontier = [best for best in frontier if not sets.is_within(cost, best) or sets.is_within(best, cost)]
        frontier.append(cost)
    return tuple(frontier)
