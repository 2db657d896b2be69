"""Exact minimum cost of covering a small matrix with tiles, as a mixed-integer program solved by SciPy's HiGHS.

Variables: whether each block is taken, whether each entry is left to CSR, which operators touch each row of C, and
whether any does. Blocks of at most `WINDOW_ROWS` rows never cross windows of that many rows, and nothing but rows is
shared: each window is a program of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from autosparse.tuner.hybrid.costs import CSR, Operator, PrimitiveCosts
from autosparse.tuner.hybrid.tiles import WINDOW_ROWS, Tiles, blocks
from numpy.typing import NDArray

from autosparse.core.pattern import Pattern


def optimal_cost(pattern: Pattern, operators: Sequence[Operator], costs: PrimitiveCosts) -> float:
    """Return the least cost of any choice of blocks of `operators` and CSR that covers every entry."""
    total = 0.0
    for first in range(0, pattern.n_rows, WINDOW_ROWS):
        last = min(first + WINDOW_ROWS, pattern.n_rows)
        begin, end = int(pattern.indptr[first]), int(pattern.indptr[last])
        if begin < end:
            indptr = np.ascontiguousarray(pattern.indptr[first : last + 1] - begin)
            window = Pattern(last - first, pattern.n_cols, indptr, np.ascontiguousarray(pattern.indices[begin:end]))
            total += _solve(window, [one for one in operators if one.family == "block"], costs)
    return total


@dataclass(slots=True)
class _Sums:
    """Lower bounds of weighted sums of variables."""

    terms: list[tuple[int, int, float]] = field(default_factory=list)  # number of the sum, variable, weight
    lower: list[float] = field(default_factory=list)

    def at_least(self, least: float, terms: Sequence[tuple[int, float]]) -> None:
        """Add a lower bound of a sum."""
        self.terms += [(len(self.lower), variable, weight) for variable, weight in terms]
        self.lower.append(least)

    def constraint(self, n_variables: int) -> Any:  # Any: SciPy's LinearConstraint
        """Return all bounds as a SciPy constraint."""
        from scipy.optimize import LinearConstraint
        from scipy.sparse import coo_array

        rows, columns, weights = zip(*self.terms, strict=True)
        places = np.array([rows, columns], np.int32)  # SciPy 1.13 passes no other index type to HiGHS
        matrix = coo_array((weights, (*places,)), shape=(len(self.lower), n_variables)).tocsr()
        return LinearConstraint(matrix, lb=self.lower)


def _solve(pattern: Pattern, operators: Sequence[Operator], costs: PrimitiveCosts) -> float:
    from scipy.optimize import Bounds, milp

    nnz, n_rows, n_operators = pattern.nnz, pattern.n_rows, len(operators) + 1
    cut = [blocks(pattern, one) for one in operators]
    price = [np.full(tiles.n_tiles, costs.tile(tiles.operator, 1)) for tiles in cut]
    offsets = np.cumsum([0, *(tiles.n_tiles for tiles in cut)])
    entry_at = int(offsets[-1])
    invalidated_at = entry_at + nnz
    any_at = invalidated_at + n_rows * n_operators
    csr = costs.tile(CSR, 1) - costs.tile(CSR, 0)
    # A row costs further_row for every operator that touches it, less the saving of its first one.
    touches = np.full(n_rows * n_operators, costs.further_row)
    saved = np.full(n_rows, costs.first_row - costs.further_row)
    c = np.concatenate([*price, np.full(nnz, csr), touches, saved])
    sums = _Sums()
    for entry in range(nnz):
        covering = [(int(offsets[at] + tiles.tile_of[entry]), 1.0) for at, tiles in enumerate(cut)]
        sums.at_least(1.0, [*covering, (entry_at + entry, 1.0)])
    for at, tiles in enumerate(cut):
        for tile, group in enumerate(tiles.group_of.tolist()):
            for row in range(group * tiles.height, min((group + 1) * tiles.height, n_rows)):
                sums.at_least(0.0, [(invalidated_at + at * n_rows + row, 1.0), (int(offsets[at]) + tile, -1.0)])
    for entry, row in enumerate(pattern.rows_of_entries().tolist()):
        sums.at_least(0.0, [(invalidated_at + len(operators) * n_rows + row, 1.0), (entry_at + entry, -1.0)])
    for row in range(n_rows):
        touching = [(invalidated_at + at * n_rows + row, 1.0) for at in range(n_operators)]
        sums.at_least(0.0, [*touching, (any_at + row, -1.0)])
    found = milp(c, constraints=sums.constraint(c.size), integrality=np.ones(c.size), bounds=Bounds(0, 1))
    assert found.success, found.message
    return float(found.fun)


def single_cost(pattern: Pattern, operator: Operator, costs: PrimitiveCosts) -> float:
    """Return the cost of the whole matrix by one operator, blocks or CSR."""
    if operator.family == "csr":
        n_rows = int(np.count_nonzero(pattern.row_lengths))
        empty, entry = costs.tile(operator, 0), costs.tile(operator, 1) - costs.tile(operator, 0)
        return empty * n_rows + entry * pattern.nnz + costs.first_row * n_rows
    found = blocks(pattern, operator)
    touched = touched_rows(found, np.arange(found.n_tiles), pattern.n_rows)
    return costs.tile(operator, 1) * found.n_tiles + costs.first_row * int(touched.sum())


def touched_rows(tiles: Tiles, chosen: NDArray[np.int64], n_rows: int) -> NDArray[np.bool_]:
    """Return a mask of the rows of C that the chosen tiles write."""
    touched = np.zeros(n_rows, dtype=bool)
    rows = (tiles.group_of[chosen][:, None] * tiles.height + np.arange(tiles.height)).ravel()
    touched[rows[rows < n_rows]] = True
    return touched
