"""Greedy search for the tiles of a matrix, with withdraw (STile, Algorithm 2), corrected where it must be.

The runtime plans each window of rows as if it were alone: tiles of different windows share nothing, so the order in
which windows are planned changes nothing. A withdrawal replaces all that lies in a window by blocks of one shape; of a
batch, each tile is weighed again before it is taken. Runs of rows (ELL) are cut from the entries that are left, again
after every batch. At the end the plan is compared with every single operator.
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

Array = NDArray[Any]  # int32 numbers of operators, or float64 costs

MAX_SWEEPS: Final = 4
FAMILIES: Final = {"block": 0, "csr": 1, "ell": 2}
"""Family -> its number for the runtime."""

Chooser = Callable[
    [Pattern, Sequence[tuple[int, int, int, float, float]], Mapping[str, float]], tuple[Array, Array, Array]
]
"""`_native.choose_tiles`: (pattern, operators, options) -> (owner of each entry, totals, costs of operators alone)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GreedyOptions:
    """Which of the paper's means are used; the default is all of them but batches, which only save time."""

    withdraw: bool = True
    r: float = 1.0  # tiles of up to r times the least average cost are taken together; 1: one after the other
    levels: int = 100  # most times that tiles of a window are cut from what is left
    local: bool = True  # batches look at tiles of the chosen operator only
    sweeps: int = MAX_SWEEPS  # withdrawals that are tried once everything is covered


@dataclass(frozen=True, slots=True)
class TilePlan:
    """Which operator computes each entry, (nnz,) numbers into `operators`, and the planned cost of all."""

    operators: tuple[Operator, ...]
    owner: Array
    cost: float
    n_iterations: int = 0
    n_tiles: int = 0

    def shares(self) -> dict[Operator, float]:
        """Share of the entries of each operator that has any."""
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
    """Tiles that cover every entry of `pattern`; never above the best single operator in planned cost.

    `with_csr`: whether CSR is one of the operators whether it is named or not; without it, some must cover everything.
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
    """An operator as the runtime takes it: what a tile costs, and each entry of it where that matters."""
    empty, one = costs.tile(operator, 0), costs.tile(operator, 1)
    of_tile, of_entry = (empty, one - empty) if operator.family == "csr" else (one, 0.0)
    return FAMILIES[operator.family], operator.r, operator.c, of_tile, of_entry
