"""Tests of partitions and of the greedy choice of tiles against the exact optimum on small matrices."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from autosparse.tuner.hybrid.costs import CSR, Operator, PrimitiveCosts, Rate
from autosparse.tuner.hybrid.partitions import partitions
from autosparse.tuner.research.hybrid import primitives
from autosparse.tuner.research.hybrid.greedy import GreedyOptions, plan_tiles

from autosparse import _native
from autosparse.core.composite import REST, Rows
from autosparse.core.pattern import Pattern
from tests.tuner.tile_optimum import optimal_cost, single_cost

REFERENCE = PrimitiveCosts(
    {"block": Rate(0.6, 1.0, 0.5), "csr": Rate(0.0, 1.6, 0.5), "ell": Rate(0.3, 1.3, 0.5)}, 2.0, 3.0
)
"""A block costs c (1 + r / 2) + 0.6, an entry of CSR 2.1, a row of C 2, each further operator 3."""
BY_ROWS = PrimitiveCosts({"csr": Rate(0.0, 0.75, 0.25), "panel": Rate(0.0, 0.75, 0.25)}, 0.0, 0.0)

OPERATORS = tuple(Operator("block", r, c) for r in (1, 2, 4) for c in (1, 2, 4))
N = 16


def pattern_of(dense: Any) -> Pattern:
    A = sp.csr_matrix(np.asarray(dense, dtype=np.float32))
    return Pattern(*A.shape, A.indptr, A.indices)


def small(seed: int) -> Pattern:
    """Return a 16 x 16 pattern: planted blocks with scattered entries (two of four), power-law rows, or uniform."""
    rng = np.random.default_rng(seed)
    dense = np.zeros((N, N), bool)
    if seed % 4 < 2:
        for _ in range(rng.integers(2, 6)):
            r, c = rng.choice([1, 2, 4], 2)
            i, k = rng.integers(0, N // r) * r, rng.integers(0, N // c) * c
            dense[i : i + r, k : k + c] = True
        dense |= rng.random((N, N)) < rng.uniform(0.03, 0.12)
    elif seed % 4 == 2:
        for row in dense:
            row[rng.choice(N, min(N, int(rng.pareto(1.2) + 1)), replace=False)] = True
    else:
        dense |= rng.random((N, N)) < 0.2
    dense[0, 0] = True
    return pattern_of(dense)


def regrets(seeds: range) -> Any:
    """Return planned cost over the optimum; check that no plan costs more than the best single operator."""
    found = []
    for seed in seeds:
        pattern = small(seed)
        plan, best = (
            plan_tiles(pattern, OPERATORS, REFERENCE, _native.choose_tiles),
            optimal_cost(pattern, OPERATORS, REFERENCE),
        )
        assert plan.cost <= min(single_cost(pattern, one, REFERENCE) for one in (*OPERATORS, CSR)) + 1e-9
        assert plan.cost >= best - 1e-6
        assert (plan.owner >= 0).all()
        found.append(plan.cost / best)
    return np.asarray(found)


def test_greedy_is_near_the_optimum():
    assert regrets(range(12)).max() <= 1.10


@pytest.mark.parametrize(("side", "tail", "most"), [(4, 12, 1.13), (4, 8, 1.0), (8, 8, 1.0)])
def test_greedy_is_near_the_optimum_on_the_papers_pattern(side, tail, most):
    """Check dense blocks on the diagonal, the first row of each longer than the others (STile, Section 5.4)."""
    dense = np.zeros((N, N + tail), bool)
    for first in range(0, N, side):
        dense[first : first + side, first : first + side] = True
        dense[first, first : first + side + tail] = True
    pattern = pattern_of(dense)
    planned = plan_tiles(pattern, OPERATORS, REFERENCE, _native.choose_tiles).cost
    best = optimal_cost(pattern, OPERATORS, REFERENCE)
    assert best - 1e-6 <= planned <= most * best + 1e-6
    assert planned < min(single_cost(pattern, one, REFERENCE) for one in (*OPERATORS, CSR))


@pytest.mark.full
def test_greedy_is_near_the_optimum_on_many():
    found = regrets(range(200))
    assert np.quantile(found, 0.95) <= 1.06
    assert found.max() <= 1.10


def test_withdraw_and_levels_only_help_in_the_mean():
    patterns = [small(seed) for seed in range(8)]
    costs = {
        options: sum(plan_tiles(one, OPERATORS, REFERENCE, _native.choose_tiles, options).cost for one in patterns)
        for options in (GreedyOptions(), GreedyOptions(withdraw=False), GreedyOptions(r=1.2))
    }
    assert costs[GreedyOptions()] < costs[GreedyOptions(withdraw=False)]
    assert costs[GreedyOptions(r=1.2)] <= 1.05 * costs[GreedyOptions()]


RUNS = tuple(Operator("ell", 1, width) for width in (2, 4, 8))
MEANS = (
    GreedyOptions(),
    GreedyOptions(withdraw=False),
    GreedyOptions(r=1.2),
    GreedyOptions(r=1.5, local=False, levels=1),
)


def cost_of(pattern: Pattern, plan: Any) -> float:
    """Compute the planned cost of a plan without runs, from the operator of each entry alone."""
    rows, tiles_cost = np.repeat(np.arange(pattern.n_rows), pattern.row_lengths), 0.0
    touched = np.zeros((len(plan.operators), pattern.n_rows), bool)
    for at, operator in enumerate(plan.operators):
        mine = plan.owner == at
        for group in np.unique(rows[mine] // operator.r):
            touched[at, group * operator.r : (group + 1) * operator.r] = True
        block = rows[mine] // operator.r * pattern.n_cols + pattern.indices[: pattern.nnz][mine] // operator.c
        n_tiles = int(mine.sum()) if operator == CSR else np.unique(block).size
        tiles_cost += REFERENCE.tile(operator, 1) * n_tiles
    n_operators = touched.sum(axis=0)
    further = REFERENCE.further_row * np.maximum(n_operators - 1, 0)
    return tiles_cost + float((REFERENCE.first_row * (n_operators > 0) + further).sum())


@pytest.mark.parametrize("options", MEANS, ids=str)
@pytest.mark.parametrize("index_dtype", ["int32", "int64"])
def test_planned_cost_is_that_of_the_tiles(options, index_dtype):
    """Check rows that fill no window, repeated entries and wide indices too."""
    for seed in range(8):
        A = small(seed)
        indptr, indices = A.indptr[:15].astype(index_dtype), A.indices[: A.indptr[14]].astype(index_dtype)
        pattern = Pattern(14, N, indptr, indices)
        plan = plan_tiles(pattern, OPERATORS, REFERENCE, _native.choose_tiles, options)
        assert plan.cost == pytest.approx(cost_of(pattern, plan))
        with_runs = plan_tiles(pattern, (*OPERATORS, *RUNS), REFERENCE, _native.choose_tiles, options)
        assert 0 <= with_runs.owner.min(initial=0) <= with_runs.owner.max(initial=0) < len(with_runs.operators)
        assert sum(with_runs.shares().values()) == pytest.approx(1.0)
    twice = Pattern(2, 2, np.asarray([0, 40, 41], index_dtype), np.asarray([*[0, 1] * 20, 1], index_dtype))
    plan = plan_tiles(twice, OPERATORS, REFERENCE, _native.choose_tiles, options)
    assert (plan.owner >= 0).all()
    assert plan.cost <= REFERENCE.tile(Operator("block", 2, 2), 1) + 2 * REFERENCE.first_row
    none = plan_tiles(
        Pattern(3, 3, np.zeros(4, index_dtype), np.zeros(0, index_dtype)), RUNS, REFERENCE, _native.choose_tiles
    )
    assert (none.cost, none.owner.size, none.n_iterations) == (0.0, 0, 0)


def test_windows_are_planned_as_if_alone():
    """Check that the cost of a matrix of many windows is the sum of the costs of its windows."""
    patterns = [small(seed) for seed in range(4)]
    indices = np.concatenate([one.indices[: one.nnz] for one in patterns])
    lengths = np.concatenate([one.row_lengths for one in patterns])
    tall = Pattern(lengths.size, N, np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32), indices)
    owners = [plan_tiles(one, OPERATORS, REFERENCE, _native.choose_tiles) for one in patterns]
    together = plan_tiles(tall, OPERATORS, REFERENCE, _native.choose_tiles)
    assert together.cost <= sum(one.cost for one in owners) + 1e-9
    assert together.cost == pytest.approx(cost_of(tall, together))


@pytest.mark.parametrize("name", primitives.FORMATS)
def test_pieces_of_a_format_divide_the_entries(name):
    pattern = small(3)
    pieces = primitives.apply(pattern, *primitives.FORMATS[name](4, 4))
    assert sorted(np.concatenate([piece.entry for piece in pieces]).tolist()) == list(range(pattern.nnz))
    assert all(piece.slots >= piece.entry.size for piece in pieces)


def test_dense_rows_are_found():
    rng = np.random.default_rng(0)
    few = sp.random_array((400, 400), density=0.01, random_state=rng).toarray() > 0
    few[::40] |= rng.random((10, 400)) < 0.6
    pattern = pattern_of(few)
    best = partitions(pattern, 256, BY_ROWS)[0]
    assert isinstance(best.selections[0], Rows)
    assert 4 < best.selections[0].least < 200
    assert best.selections[1] == REST


def test_two_dense_rows_are_a_part():
    """Check two dense rows, as in quadratic programs: side by side they read a row of B once instead of twice."""
    dense = np.eye(400, dtype=bool)
    dense[:2] = True
    (found,) = partitions(pattern_of(dense), 256, BY_ROWS)
    assert found.selections[1] == REST
    assert 0.5 < found.predicted_ratio < 0.97


def test_uniform_matrices_are_not_divided():
    pattern = pattern_of(np.random.default_rng(0).random((300, 300)) < 0.03)
    assert partitions(pattern, 256, BY_ROWS) == []


def test_long_rows_are_found_for_any_first_cut():
    """Check that cuts below four times the mean length do not hide a later cut that takes the same rows."""
    dense = np.zeros((200, 4000))
    dense[:, :6] = 1
    dense[::20, :80] = 1
    (found,) = [one for one in partitions(pattern_of(dense), 4, BY_ROWS) if one.selections[0] != Rows(8)]
    assert found.selections == (Rows(39), REST)
