"""Greedy search for the tiles of a matrix, with withdraw (STile, Algorithm 2) and corrections.

The runtime plans each window of rows independently, since tiles of different windows share nothing. A withdrawal
replaces all tiles of a window by blocks of one shape. Each tile of a batch is evaluated again before it is taken. ELL
runs are cut again from the remaining entries after every batch. At the end, the plan is compared with every single
operator.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import numpy as np
from autosparse.tuner.hybrid.costs import CSR, Operator, PrimitiveCosts
from autosparse.tuner.hybrid.tiles import WINDOW_ROWS
from numpy.typing import NDArray

from autosparse.core.pattern import Pattern
from autosparse.core.values import dataclass

Array = NDArray[Any]  # int32 operator numbers, or float64 costs

MAX_SWEEPS: Final = 4
FAMILIES: Final = {"block": 0, "csr": 1, "ell": 2}
"""Number of each family in the runtime's interface."""

Chooser = Callable[
    [Pattern, Sequence[tuple[int, int, int, float, float]], Mapping[str, float]], tuple[Array, Array, Array]
]
"""Type of `_native.choose_tiles`: (pattern, operators, options) -> (owner per entry, totals, single-operator costs)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GreedyOptions:
    """Options of the paper's algorithm; by default all are on except batches, which only save search time."""

    withdraw: bool = True
    r: float = 1.0  # maximum average cost over the least one for tiles of a batch; 1: one tile at a time
    levels: int = 100  # maximum number of times that tiles of a window are cut from the remaining entries
    local: bool = True  # batches consider only tiles of the chosen operator
    sweeps: int = MAX_SWEEPS  # maximum number of withdrawal sweeps after everything is covered


@dataclass(frozen=True, slots=True)
class TilePlan:
    """Assignment of entries to operators: `owner[e]` is the position in `operators` of the one that computes entry e.

    `cost` is the planned total.
    """

    operators: tuple[Operator, ...]
    owner: Array
    cost: float
    n_iterations: int = 0
    n_tiles: int = 0

    def shares(self) -> dict[Operator, float]:
        """Return the share of the entries that each used operator computes."""
        counts = np.bincount(self.owner, minlength=len(self.operators)) / max(1, self.owner.size)
        return {one: float(share) for one, share in zip(self.operators, counts, strict=True) if share}


def plan_tiles(
    pattern: Pattern,
    operators: Sequence[Operator],
    costs: PrimitiveCosts,
    choose: Chooser,
    options: GreedyOptions | None = None,
    *,
    with_csr: bool = True,
) -> TilePlan:
    """Return tiles that cover every entry of `pattern`, at a planned cost no higher than the best single operator's.

    `with_csr` adds CSR to the operators. Without it, some given operator must be able to cover everything.
    """
    options = options or GreedyOptions()
    everything = tuple(operators) if CSR in operators or not with_csr else (*operators, CSR)
    heights = (one.r for one in everything if one.family == "block")
    given = {
        "window": math.lcm(WINDOW_ROWS, *heights), "levels": options.levels, "batches": options.r > 1.0,
        "local": options.local, "withdraw": options.withdraw, "sweeps": options.sweeps, "r": options.r,
        "first_row": costs.first_row, "further_row": costs.further_row,
    }  # fmt: skip
    owner, (cost, n_iterations, n_tiles), alone = choose(pattern, [_row(one, costs) for one in everything], given)
    singles = [at for at, one in enumerate(everything) if one.family != "ell"]
    best = min(singles, key=lambda at: float(alone[at]), default=0)
    if singles and alone[best] <= cost:
        return TilePlan(everything, np.full_like(owner, best), float(alone[best]), int(n_iterations), 1)
    return TilePlan(everything, owner, float(cost), int(n_iterations), int(n_tiles))


def _row(operator: Operator, costs: PrimitiveCosts) -> tuple[int, int, int, float, float]:
    """Return an operator as the runtime takes it: (family number, r, c, cost per tile, cost per entry)."""
    empty, one = costs.tile(operator, 0), costs.tile(operator, 1)
    of_tile, of_entry = (empty, one - empty) if operator.family == "csr" else (one, 0.0)
    return FAMILIES[operator.family], operator.r, operator.c, of_tile, of_entry
