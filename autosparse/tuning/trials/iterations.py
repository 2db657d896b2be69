"""Estimate the number of loop iterations of a kernel before it runs, so that products of minutes are never started.

A loop order that does not follow the levels iterates over whole extents and searches for cells absent from the
pattern. A loop order with the columns outermost repeats all that. A running kernel cannot be stopped, and even the
comparison with the default kernel runs it.
"""

from __future__ import annotations

import math
from typing import Any, Final

from autosparse.core.problem import Problem
from autosparse.core.schedule import SuperSchedule
from autosparse.targets.priors import number

MAX_ITERATIONS: Final = 16
"""Maximum ratio of a kernel's iterations to the default kernel's."""
FREE_ITERATIONS: Final = number("checks", "free iterations")
"""Number of iterations that is always allowed."""
LANES: Final = 8
"""Columns computed per iteration if the columns are the innermost loop."""


def n_iterations(schedule: SuperSchedule, packed: Any, n_columns: int) -> float:  # Any: _native.PackedOperand
    """Return about how many loop iterations a product of `n_columns` columns takes, searches of levels included.

    A loop that follows the loops of all outer levels iterates over stored positions. A loop that precedes one of them
    iterates over its whole extent, and the skipped levels are searched later.
    """
    fmt = schedule.format
    extents = fmt.extents(packed.sizes)
    positions = dict(zip(fmt.order, packed.n_positions, strict=True))
    total = 1.0
    looped: set[str] = set()
    for name in schedule.loop_order:
        if name not in extents:
            continue
        depth = fmt.order.index(name)
        parents = fmt.order[:depth]
        outer = positions[parents[-1]] if parents else 1
        walks_positions = looped == set(parents)
        total *= positions[name] / max(1, outer) if walks_positions else extents[name]
        looped.add(name)
    return total * _column_steps(schedule, n_columns)


def _column_steps(schedule: SuperSchedule, n_columns: int) -> int:
    """Return the iterations of the loops over columns; vectorized ones take several columns at once."""
    tile = min(n_columns, schedule.dense_split("j") or n_columns)
    inner = [name for name in schedule.loop_order if name.startswith("j")]
    is_vector = not inner or schedule.loop_order[-1] == "j0"
    return -(-n_columns // tile) * (-(-tile // LANES) if is_vector else tile)


def why_endless(schedule: SuperSchedule, packed: Any, problem: Problem) -> str | None:  # Any: _native.PackedOperand
    """Return the reason why a product by the kernel of `schedule` would take too long; None if it would not."""
    default = problem.pattern.nnz * -(-problem.n_dense_cols // LANES)
    n = n_iterations(schedule, packed, problem.n_dense_cols)
    if n <= max(FREE_ITERATIONS, MAX_ITERATIONS * default):
        return None
    most = math.inf if not default else n / default
    return f"its loops take {n:.2g} iterations, {most:.0f} times the default kernel's"
