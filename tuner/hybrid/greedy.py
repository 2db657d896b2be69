"""Greedy search for the tiles of a matrix, with withdraw (STile, Algorithm 2), corrected where it must be.

A batch replaces what is withdrawn only, and each of its tiles is looked at again before it is taken; a negative average
cost c (a withdrawal that pays at once) lets tiles of up to c (2 - r) join, since r c would be less than c. Tiles of
later levels are cut from the entries that are left. At the end the plan is compared with every single operator.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
from autosparse.tuner.hybrid.costs import CSR, Operator, PrimitiveCosts
from autosparse.tuner.hybrid.tiles import WINDOW_ROWS, Tiles, blocks, csr_rows, ell_rows, row_of_entries, single_cost
from numpy.typing import NDArray

from autosparse.core.pattern import Pattern

Array = NDArray[Any]  # int64, float64 or booleans

EPSILON: Final = 1e-9
MOST_SWEEPS: Final = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class GreedyOptions:
    """Which of the paper's means are used; the default is all of them but batches, which only save time."""

    withdraw: bool = True
    r: float = 1.0  # tiles of up to r times the least average cost are taken together; 1: one after the other
    levels: int = 100  # most times that tiles are cut from what is left
    local: bool = True  # batches look at tiles of the chosen operator only
    sweeps: int = MOST_SWEEPS  # withdrawals that are tried once everything is covered


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


@dataclass(slots=True)
class _State:
    """Tiles taken so far: per operator those of each group of rows, and which rows of C they touch."""

    pattern: Pattern
    costs: PrimitiveCosts
    operators: tuple[Operator, ...]
    rows: Array
    owner: Array
    touched: Array  # (operators, rows): tiles that touch each row
    taken: dict[int, tuple[int, Array, Array, float]] = field(default_factory=dict)  # operator, entries, rows, cost
    _numbers: Iterator[int] = field(default_factory=itertools.count)

    @property
    def left(self) -> Array:
        """Which entries no tile covers."""
        return self.owner < 0

    def row_costs(self, at: int) -> Array:
        """What a tile of an operator pays for each row of C that it does not touch yet."""
        n_operators = (self.touched > 0).sum(axis=0)
        price = np.where(n_operators > 0, self.costs.further_row, self.costs.first_row)
        return np.where(self.touched[at] > 0, 0.0, price)

    def take(self, at: int, entries: Array, rows: Array, cost: float) -> None:
        """Add a tile."""
        self.owner[entries] = at
        self.touched[at, rows] += 1
        self.taken[next(self._numbers)] = (at, entries, rows, cost)

    def withdraw(self, number: int) -> None:
        """Take a tile away."""
        at, entries, rows, _ = self.taken.pop(number)
        self.owner[entries[self.owner[entries] == at]] = -1
        self.touched[at, rows] -= 1

    def total(self) -> float:
        """Cost of everything that was taken."""
        n_operators = (self.touched > 0).sum(axis=0)
        rows = self.costs.first_row * (n_operators > 0) + self.costs.further_row * np.maximum(n_operators - 1, 0)
        return sum(cost for *_, cost in self.taken.values()) + float(rows.sum())


@dataclass(slots=True)
class _Cut:
    """The tiles of one operator with what they cover: entries by tile, and which rows."""

    at: int
    tiles: Tiles
    order: Array
    begin: Array

    @classmethod
    def of(cls, at: int, tiles: Tiles) -> _Cut:
        inside = np.flatnonzero(tiles.tile_of >= 0)
        order = inside[np.argsort(tiles.tile_of[inside], kind="stable")]
        counts = np.bincount(tiles.tile_of[inside], minlength=tiles.n_tiles)
        return cls(at, tiles, order, np.concatenate([[0], np.cumsum(counts)]))

    def entries(self, tile: int) -> Array:
        return self.order[self.begin[tile] : self.begin[tile + 1]]

    def rows(self, tile: int, n_rows: int) -> Array:
        first = int(self.tiles.group_of[tile]) * self.tiles.height
        return np.arange(first, min(first + self.tiles.height, n_rows))

    def averages(self, state: _State) -> Array:
        """Cost per newly covered entry of each tile; infinite where there is none."""
        n_rows, height = state.pattern.n_rows, self.tiles.height
        gains = np.bincount(self.tiles.tile_of[(self.tiles.tile_of >= 0) & state.left], minlength=self.tiles.n_tiles)
        price = np.zeros(-(-n_rows // height) * height)
        price[:n_rows] = state.row_costs(self.at)
        by_group = price.reshape(-1, height).sum(axis=1)
        own = self.own_costs(state, gains) + by_group[self.tiles.group_of]
        return np.where(gains > 0, own / np.maximum(gains, 1), np.inf)

    def own_costs(self, state: _State, gains: Array) -> Array:
        operator = self.tiles.operator
        if operator.family == "csr":
            zero, one = state.costs.tile(operator, 0), state.costs.tile(operator, 1)
            return np.asarray(zero + (one - zero) * gains)
        return np.full(self.tiles.n_tiles, state.costs.tile(operator, 1))


def plan_tiles(
    pattern: Pattern, operators: Sequence[Operator], costs: PrimitiveCosts, options: GreedyOptions | None = None
) -> TilePlan:
    """Tiles that cover every entry of `pattern`; never above the best single operator in planned cost."""
    options = options or GreedyOptions()
    everything = tuple(operators) if CSR in operators else (*operators, CSR)
    state = _State(
        pattern, costs, everything, row_of_entries(pattern), np.full(pattern.nnz, -1),
        np.zeros((len(everything), pattern.n_rows), dtype=np.int64),
    )  # fmt: skip
    n_iterations = _cover(state, options)
    if options.withdraw:
        _sweep(state, options)
    found = TilePlan(everything, state.owner.copy(), state.total(), n_iterations, len(state.taken))
    best = min((one for one in everything if one.family != "ell"), key=lambda one: single_cost(pattern, one, costs))
    alone = single_cost(pattern, best, costs)
    if alone <= found.cost:
        owner = np.full(pattern.nnz, everything.index(best))
        return TilePlan(everything, owner, alone, n_iterations, 1)
    return found


def _cover(state: _State, options: GreedyOptions) -> int:
    """Take tiles until every entry is covered; returns how often it looked for the best one."""
    n_iterations = 0
    fixed = [_Cut.of(at, blocks(state.pattern, one)) for at, one in enumerate(state.operators) if one.family == "block"]
    loose = _cut_loose(state)
    while state.left.any():
        n_iterations += 1
        cuts = [*fixed, *loose]
        averages = [cut.averages(state) for cut in cuts]
        best = min(range(len(cuts)), key=lambda at: averages[at].min(initial=np.inf))
        c = float(averages[best].min())
        if options.withdraw and _try_withdraw(state, fixed, c):
            continue
        _take_batch(state, cuts, averages, best, options)
        if n_iterations < options.levels:
            loose = _cut_loose(state)
    return n_iterations


def _cut_loose(state: _State) -> list[_Cut]:
    """Tiles of rows, cut from what is left: the next level's."""
    found = []
    for at, operator in enumerate(state.operators):
        if operator.family == "csr":
            found.append(_Cut.of(at, csr_rows(state.pattern, state.left)))
        elif operator.family == "ell":
            found.append(_Cut.of(at, ell_rows(state.pattern, operator, state.left)))
    return found


def _take_batch(
    state: _State, cuts: Sequence[_Cut], averages: Sequence[Array], best: int, options: GreedyOptions
) -> None:
    """The best tile, and those of up to r times its average cost, cheapest first, each looked at again."""
    c = float(averages[best].min())
    limit = (options.r * c if c >= 0 else c * (2.0 - options.r)) + EPSILON
    looked = [best] if options.local or options.r <= 1.0 else range(len(cuts))
    found = [
        (float(averages[at][tile]), at, int(tile)) for at in looked for tile in np.flatnonzero(averages[at] <= limit)
    ]
    found.sort()
    for _, at, tile in found if options.r > 1.0 else found[:1]:
        cut, entries = cuts[at], cuts[at].entries(tile)
        new = entries[state.owner[entries] < 0]
        rows = cut.rows(tile, state.pattern.n_rows)
        own = state.costs.tile(cut.tiles.operator, int(new.size))
        if new.size and (own + float(state.row_costs(cut.at)[rows].sum())) / new.size <= limit:
            state.take(cut.at, new, rows, own)


def _windows(state: _State, fixed: Sequence[_Cut]) -> Iterator[tuple[_Cut, int]]:
    """Block operators, and the windows of rows that each may take whole."""
    for cut in fixed:
        for window in range(-(-state.pattern.n_rows // WINDOW_ROWS)):
            yield cut, window


def _replacement(state: _State, cut: _Cut | None, rows: Array) -> tuple[float, list[int], Array]:
    """(change of cost, tiles that go, entries) when all of a window's rows are computed by one operator.

    `cut` None: by CSR. Tiles of blocks never cross windows, so what lies inside them goes.
    """
    inside = (state.rows >= rows[0]) & (state.rows <= rows[-1])
    gone = [number for number, (_, _, touched, _) in state.taken.items() if rows[0] <= touched[0] <= rows[-1]]
    before = sum(state.taken[number][3] for number in gone)
    n_operators = (state.touched[:, rows] > 0).sum(axis=0)
    before += float(
        (state.costs.first_row * (n_operators > 0) + state.costs.further_row * np.maximum(n_operators - 1, 0)).sum()
    )
    entries = np.flatnonzero(inside)
    if cut is None:
        operator, n_tiles, n_rows = CSR, 0, np.unique(state.rows[entries]).size
        after = state.costs.tile(operator, int(entries.size)) - state.costs.tile(operator, 0)
        after += state.costs.tile(operator, 0) * n_rows
    else:
        tiles = np.unique(cut.tiles.tile_of[entries])
        n_tiles = tiles.size
        after = n_tiles * state.costs.tile(cut.tiles.operator, 1)
        n_rows = sum(cut.rows(int(first), state.pattern.n_rows).size for first in _firsts(cut, tiles))
    return after + state.costs.first_row * n_rows - before, gone, entries


def _firsts(cut: _Cut, tiles: Array) -> Array:
    """One tile of each group of rows."""
    return tiles[np.unique(cut.tiles.group_of[tiles], return_index=True)[1]]


def _try_withdraw(state: _State, fixed: Sequence[_Cut], c: float) -> bool:
    """Replace what lies in a window by blocks of one shape, where that covers entries at less than `c` each."""
    best: tuple[float, _Cut, list[int], Array, Array] | None = None
    for cut, window in _windows(state, fixed):
        rows = _window_rows(state, window)
        new = int((state.left & (state.rows >= rows[0]) & (state.rows <= rows[-1])).sum())
        if not new:
            continue
        change, gone, entries = _replacement(state, cut, rows)
        if gone and change / new <= c + EPSILON and (best is None or change / new < best[0]):
            best = (change / new, cut, gone, entries, rows)
    if best is None:
        return False
    _replace(state, best[1], best[2], best[3])
    return True


def _window_rows(state: _State, window: int) -> Array:
    return np.arange(window * WINDOW_ROWS, min((window + 1) * WINDOW_ROWS, state.pattern.n_rows))


def _replace(state: _State, cut: _Cut | None, gone: Sequence[int], entries: Array) -> None:
    """Do what `_replacement` has weighed."""
    for number in gone:
        state.withdraw(number)
    if cut is None:
        at = state.operators.index(CSR)
        for row in np.unique(state.rows[entries]):
            mine = entries[state.rows[entries] == row]
            state.take(at, mine, np.asarray([row]), state.costs.tile(CSR, int(mine.size)))
        return
    for tile in np.unique(cut.tiles.tile_of[entries]):
        rows = cut.rows(int(tile), state.pattern.n_rows)
        state.take(cut.at, cut.entries(int(tile)), rows, state.costs.tile(cut.tiles.operator, 1))


def _sweep(state: _State, options: GreedyOptions) -> None:
    """Withdraw window by window once all is covered, as long as that makes the plan cheaper."""
    fixed = [_Cut.of(at, blocks(state.pattern, one)) for at, one in enumerate(state.operators) if one.family == "block"]
    for _ in range(options.sweeps):
        improved = False
        for window in range(-(-state.pattern.n_rows // WINDOW_ROWS)):
            rows = _window_rows(state, window)
            ways: list[_Cut | None] = [*fixed, None]
            weighed = [(_replacement(state, cut, rows), cut) for cut in ways]
            (change, gone, entries), cut = min(weighed, key=lambda one: one[0][0])
            if change < -EPSILON and entries.size:
                _replace(state, cut, gone, entries)
                improved = True
        if not improved:
            return
