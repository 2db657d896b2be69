"""How long a kernel's loops are, before they run: products that would take minutes are not begun.

A loop order that does not follow the levels walks whole extents and searches for cells that a pattern does not have.
One that leaves the columns outside repeats all that. Nothing can stop a kernel once it runs, and even comparing its
result with the default kernel's runs it.
"""

from __future__ import annotations

import math
from typing import Any, Final

from autosparse.core.problem import Problem
from autosparse.core.schedule import SuperSchedule

MAX_ITERATIONS: Final = 16
"""Iterations over the default kernel's, beyond which a product is not begun."""
FREE_ITERATIONS: Final = 4e6
"""... but so many are always allowed."""
LANES: Final = 8
"""Columns that an iteration computes at once where the columns are the innermost loop."""


def n_iterations(schedule: SuperSchedule, packed: Any, n_columns: int) -> float:  # Any: _native.PackedOperand
    """About how many iterations the loops make, innermost bodies and searches.

    A loop that comes after the loops of all levels outside its own walks stored positions; one that comes before them
    walks its whole extent, and the levels skipped are searched later.
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
    """Iterations of the loops over columns: single columns where another loop runs inside them."""
    tile = min(n_columns, schedule.dense_split("j") or n_columns)
    inner = [name for name in schedule.loop_order if name.startswith("j")]
    is_vector = not inner or schedule.loop_order[-1] == "j0"
    return -(-n_columns // tile) * (-(-tile // LANES) if is_vector else tile)


def why_endless(schedule: SuperSchedule, packed: Any, problem: Problem) -> str | None:  # Any: _native.PackedOperand
    """Why a product by the kernel of `schedule` must not be begun; None: it ends in time."""
    default = problem.pattern.nnz * -(-problem.n_dense_cols // LANES)
    n = n_iterations(schedule, packed, problem.n_dense_cols)
    if n <= max(FREE_ITERATIONS, MAX_ITERATIONS * default):
        return None
    most = math.inf if not default else n / default
    return f"its loops take {n:.2g} iterations, {most:.0f} times the default kernel's"
