"""Tests of the costs of hybrid-format primitives: fitted to times, recorded by class, used in the search."""

from __future__ import annotations

import dataclasses
import json
import time
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from autosparse.tuner.hybrid.costs import REFERENCE, PrimitiveCosts, Rate
from autosparse.tuner.hybrid.partitions import DEFAULT_COSTS, partitions
from autosparse.tuner.hybrid.tiles import block_operators
from autosparse.tuner.research.hybrid.greedy import plan_tiles

import autosparse as asp
from autosparse import _native
from autosparse.calibration import primitives
from autosparse.cli import calibrate
from autosparse.config import Effort, get_options
from autosparse.core.pattern import Pattern
from autosparse.core.target import Target
from autosparse.dispatch.state import state_for
from autosparse.tuning.hybrid import divider_of
from autosparse.tuning.learned import machine_folder
from autosparse.tuning.memory.cost_table import CLASSES, COSTS, CostClass, CostTable, farness, keep_costs, known_costs
from autosparse.tuning.problems import target_of
from autosparse.tuning.setup import context_of
from tests.tuner.tile_optimum import optimal_cost

NEAR = CostClass(32, False)
TRUE = {"csr": 9.0, "tile": 5.0, "read": 4.0, "multiply": 1.5, "panel": 7.0, "first row": 20.0, "further row": 30.0}
MEASURED = PrimitiveCosts(
    {
        "csr": Rate(0.0, 7.5, 1.5),
        "block": Rate(5.0, 4.0, 1.5),
        "ell": Rate(5.0, 7.5, 1.5),
        "panel": Rate(0.0, 7.0, 0.0),
    },
    20.0,
    30.0,
)


def numbers_of(costs: PrimitiveCosts) -> list[float]:
    rates = [value for family in MEASURED.rates for value in dataclasses.astuple(costs.rates[family])]
    return [*rates, costs.first_row, costs.further_row]


def test_rates_are_found_in_the_times_of_probes(monkeypatch):
    monkeypatch.setattr(primitives, "ENTRIES", dict.fromkeys(primitives.ENTRIES, 3000))
    target = dataclasses.replace(Target.host(), l2_bytes=1 << 18)
    made = list(primitives.probes(target, NEAR))
    times_s = [1e-9 * sum(TRUE[term] * n for term, n in one.counts.items()) for one in made]
    found = primitives.fitted([(one.counts, seconds) for one, seconds in zip(made, times_s, strict=True)])
    assert numbers_of(found) == pytest.approx(numbers_of(MEASURED), rel=1e-6, abs=1e-6)
    for one in made:
        assert sum(one.counts.get(term, 0) for term in ("csr", "multiply", "panel")) >= one.pattern.nnz / 4


def test_a_record_is_read_as_it_was_written(tmp_path):
    table = CostTable().with_class(NEAR, MEASURED)
    keep_costs(table, tmp_path)
    assert known_costs(tmp_path) == table
    assert table.missing() == [one for one in CLASSES if one != NEAR]
    assert known_costs(tmp_path / "nowhere") == known_costs(None) == CostTable()
    assert CostTable().of(32, far=0.0) is None
    wide = dataclasses.replace(MEASURED, first_row=99.0)
    both = table.with_class(CostClass(256, True), wide)
    assert both.of(20, far=0.0) == MEASURED
    assert both.of(40, far=1.0) == both.of(40, far=0.6) == wide  # costs of two widths are never mixed


def test_costs_of_intermediate_sizes_of_B_are_interpolated():
    far = dataclasses.replace(MEASURED, first_row=60.0, rates={**MEASURED.rates, "csr": Rate(0.0, 20.0, 2.0)})
    table = CostTable({NEAR: MEASURED, CostClass(NEAR.n_dense_cols, True): far})
    l2_bytes = 1 << 20
    sizes = (1, l2_bytes, 4 * l2_bytes, 16 * l2_bytes, 1 << 40)
    found = [table.of(32, far=farness(n_bytes, l2_bytes)) for n_bytes in sizes]
    assert found[0] == found[1] == MEASURED
    assert found[3] == found[4] == far
    assert numbers_of(found[2]) == pytest.approx(
        [(one + other) / 2 for one, other in zip(numbers_of(MEASURED), numbers_of(far), strict=True)]
    )


@pytest.mark.parametrize(
    "damage",
    [
        lambda data: {**data, "version": 2},
        lambda data: {**data, "unit": "s"},
        lambda data: {**data, "classes": 3},
        lambda data: [],
        lambda data: data["classes"][0].update(first_row="much") or data,
        lambda data: data["classes"][0].update(first_row=True) or data,
        lambda data: data["classes"][0].update(further_row=-1.0) or data,
        lambda data: data["classes"][0].update(further_row=float("nan")) or data,
        lambda data: data["classes"][0].update(further_row=1e30) or data,
        lambda data: data["classes"][0].update(columns=7) or data,
        lambda data: data["classes"][0]["rates"].pop("block") and data,
        lambda data: data["classes"][0]["rates"].update(csr={"tile": 0, "read": 0, "multiply": 0}) or data,
    ],
)
def test_a_damaged_record_is_refused(tmp_path, damage):
    data = CostTable().with_class(NEAR, MEASURED).to_data()
    (tmp_path / COSTS).write_text(json.dumps(damage(data)), encoding="utf-8")
    assert known_costs(tmp_path) == CostTable()
    (tmp_path / COSTS).write_text(json.dumps(data)[:-9], encoding="utf-8")
    assert known_costs(tmp_path) == CostTable()


def planted() -> Any:
    rng = np.random.default_rng(0)
    dense = np.kron(rng.random((12, 12)) < 0.2, np.ones((4, 4), bool)) | (rng.random((48, 48)) < 0.05)
    return sp.csr_array(dense.astype(np.float32))


def costs_in_use(matrix: Any) -> PrimitiveCosts:
    """Return the costs by which a search with 32 columns chooses its partition."""
    cell = matrix._cell
    context = context_of(cell, state_for(cell, cell.rows or cell.validate(), 32, False))
    made = divider_of(context, effort=Effort.FULL, budget_s=1.0, known=None, clock=time.perf_counter)
    assert made is not None
    return made.costs


def test_planned_costs_follow_what_was_measured(tmp_path):
    A = planted()
    pattern = Pattern(*A.shape, A.indptr, A.indices)
    with asp.options(cache_dir=tmp_path, hybrid=True):
        folder = machine_folder(get_options(), target_of(get_options()))
        assert folder is not None
        assert costs_in_use(asp.csr(A)) == DEFAULT_COSTS
        keep_costs(CostTable().with_class(NEAR, MEASURED), folder)
        costs = costs_in_use(asp.csr(A))
        assert numbers_of(costs) == numbers_of(MEASURED)
        (folder / COSTS).write_text("{", encoding="utf-8")
        assert costs_in_use(asp.csr(A)) == DEFAULT_COSTS
    ratios = [
        [one.predicted_ratio for one in partitions(pattern, 32, _native.block_fill, c)] for c in (costs, DEFAULT_COSTS)
    ]
    assert ratios[0]
    assert ratios[0] != ratios[1]
    small = Pattern(16, 48, A.indptr[:17], A.indices[: A.indptr[16]])
    operators = block_operators((1, 4))
    planned, exact = (
        [made(small, operators, one) for one in (costs, REFERENCE)]
        for made in (lambda *given: plan_tiles(*given, _native.choose_tiles).cost, optimal_cost)
    )
    assert planned[0] > 3 * planned[1]
    assert exact[0] > 3 * exact[1]
    assert planned[0] >= exact[0] - 1e-6


def test_calibrate_resumes_after_an_interruption_and_can_be_undone(tmp_path, monkeypatch, capsys):
    asked = []

    def measured(target: Target, one: CostClass) -> PrimitiveCosts:
        asked.append(one)
        if one.n_dense_cols == 256:
            raise MemoryError("no room")
        return MEASURED

    monkeypatch.setattr(primitives, "measured_costs", measured)
    keep_costs(CostTable().with_class(NEAR, MEASURED), tmp_path)
    calibrate._costs(tmp_path)
    assert asked == [one for one in CLASSES if one != NEAR]
    assert known_costs(tmp_path).missing() == [one for one in CLASSES if one.n_dense_cols == 256]
    said = capsys.readouterr().out
    assert "no room" in said
    assert "1 column, B beyond the second cache: csr 0 + 7.5 per row of B" in said
    assert calibrate._undo(tmp_path) == 0
    assert "default" in capsys.readouterr().out
    assert known_costs(tmp_path) == CostTable()
