"""Tests of composites in products: they serve, see new values, are remembered and explained, and can be forbidden."""

from __future__ import annotations

import dataclasses
import re
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from autosparse._native.kernels.composite import is_swept

import autosparse as asp
from autosparse import cache
from autosparse.cli import main
from autosparse.config import Effort
from autosparse.core.composite import REST, Composite, Part, Rows
from autosparse.core.plan import Plan
from autosparse.core.schedule import RUNTIME, SuperSchedule
from autosparse.core.solver import DEFAULT, choice_of
from autosparse.dispatch.state import state_for
from autosparse.tuning.setup import context_of
from autosparse.tuning.solvers import row_panels
from autosparse.tuning.solvers.candidates import search_for
from autosparse.tuning.solvers.row_panels import panels
from autosparse.tuning.trials.part_times import part_times
from tests.tuning.forcing import ENOUGH_S, force

READY = SuperSchedule(implementation=RUNTIME)
COMPOSITE = Composite(parts=(Part(Rows(20), READY), Part(REST, READY)))


@pytest.fixture
def matrix() -> Any:
    """Return a matrix of 90 x 80 with small integers in which every ninth row is full."""
    rng = np.random.default_rng(0)
    dense = (rng.random((90, 80)) < 0.05) * rng.integers(1, 5, (90, 80))
    dense[::9] = rng.integers(1, 5, 80)
    return asp.csr_array(sp.csr_array(dense.astype(np.float32)))


def context(matrix: Any, columns: int = 16) -> Any:
    """Return the tuning context of ``A @ B``."""
    cell = matrix._cell
    return context_of(cell, state_for(cell, cell.rows or cell.validate(), columns, False))


def test_composite_serves_and_follows_values(matrix):
    B = np.random.default_rng(1).integers(-3, 4, (80, 16)).astype(np.float32)
    assert force(matrix, COMPOSITE, columns=16).schedule == COMPOSITE
    for _ in range(8):
        np.testing.assert_array_equal(matrix @ B, sp.csr_array(matrix) @ B)
    matrix.data *= 2
    for _ in range(8):
        np.testing.assert_array_equal(matrix @ B, sp.csr_array(matrix) @ B)
    text = str(matrix.explain(B))
    assert "rows(20..)" in text
    assert "a" * 40 in text  # a full row in the picture of the pattern
    rates = re.findall(r"([\d.]+) GB/s  ", text)
    assert len(rates) == 2
    assert all(float(rate) > 0 for rate in rates)
    assert "measured just now" in text
    page = matrix.explain(B)._repr_html_()
    assert f'<b class="a">{"a" * 48}</b>' in page
    assert ".map .a" in page


def test_parts_of_a_plan_that_does_not_serve_are_not_run(matrix):
    """Check plans that are only remembered, and plans other than the one that serves."""
    made = context(matrix)
    assert part_times(made, None, COMPOSITE) == ()
    other = Composite(parts=(Part(Rows(30), READY), Part(REST, READY)))
    assert part_times(made, force(matrix, COMPOSITE, columns=16), other) == ()


def test_plans_keep_composites():
    plan = Plan(choice=choice_of(COMPOSITE), why="found", effort="full")
    assert cache.plan_from_record(cache.plan_to_record(plan)).schedule == COMPOSITE
    assert Plan(choice=choice_of(READY), why="").parts == (Part(REST, READY),)
    assert Plan(choice=DEFAULT, why="").parts == ()
    assert plan.parts == COMPOSITE.parts


def test_search_tries_composites_when_asked(matrix):
    with asp.options(hybrid=True, effort="measure", budget_s=60.0):
        plan = matrix.tune("matmul", columns=16)
    tried = [one.schedule for one in plan.candidates if isinstance(one.schedule, Composite)]
    assert tried
    assert all(one.select == REST for one in (composite.parts[-1] for composite in tried))
    with asp.options(hybrid=False, effort="measure", budget_s=60.0):
        plan = matrix.tune("matmul", columns=16)
    assert not any(isinstance(one.schedule, Composite) for one in plan.candidates)


def few_in_every_panel() -> Any:
    """Return a matrix in which most rows are short, and 120 rows have a twentieth of the columns."""
    rng = np.random.default_rng(0)
    dense = rng.random((1200, 1024)) < 0.002
    dense[:120] = rng.permuted(np.tile(np.arange(1024) < 51, (120, 1)), axis=1)
    return asp.csr(sp.csr_array(dense.astype(np.float32)), copy=True)


def raced(made: Any, effort: Effort = Effort.MEASURE) -> list[Composite]:
    """Return the composites that an explicit search races."""
    found = search_for(made, effort=effort, live=False).always
    return [one for one in found if isinstance(one, Composite)]


@pytest.mark.parametrize(
    ("options", "effort", "l2_bytes", "is_raced"),
    [
        ({"hybrid": True}, "measure", 1 << 10, True),
        ({"hybrid": False}, "full", 1 << 10, False),
        ({}, "full", 1 << 10, False),  # too small to gain unless asked for
        ({"hybrid": True}, "measure", 1 << 30, False),  # B stays in the cache
    ],
)
def test_composites_race_by_option_effort_and_size(
    options: dict[str, Any], effort: str, l2_bytes: int, is_raced: bool
) -> None:
    A = few_in_every_panel()
    with asp.options(**options):
        made = context(A, 64)
        made.problem = dataclasses.replace(
            made.problem, target=dataclasses.replace(made.problem.target, l2_bytes=l2_bytes)
        )
        found = raced(made, Effort(effort))
    assert bool(found) is is_raced
    assert all(is_swept(one) and {part.implementation for part in one.parts} == {RUNTIME} for one in found)


@pytest.mark.parametrize("hybrid", [None, True, False])
def test_the_composite_of_a_remembered_plan_races(hybrid: bool | None, matrix: Any) -> None:
    with asp.options(hybrid=hybrid):
        made = context(matrix)
        always = search_for(made, effort=Effort.FULL, live=False, start=COMPOSITE).always
    assert (COMPOSITE in always) is (hybrid is not False)


@pytest.mark.parametrize(("n_cols", "columns", "is_raced"), [(600, 64, True), (600, 1, False), (40_000, 64, False)])
def test_a_matrix_whose_rows_read_every_panel_races_in_panels(n_cols: int, columns: int, is_raced: bool) -> None:
    """Check that panels race without composites too.

    They are meant for wide products with a large B, where rows have entries in most panels.
    """
    rng = np.random.default_rng(0)
    rows, places = np.repeat(np.arange(600, dtype=np.int32), 200), rng.integers(0, n_cols, 120_000, np.int32)
    A = asp.csr(sp.csr_array((np.ones(120_000, np.float32), (rows, places)), shape=(600, n_cols)), copy=True)
    made = context(A, columns)
    made.problem = dataclasses.replace(made.problem, target=dataclasses.replace(made.problem.target, l2_bytes=1 << 10))
    with asp.options(hybrid=False):
        raced = search_for(made, effort=Effort.FULL, live=False).always
    assert (panels("matmul", 1) in raced) is is_raced


def test_sampled_products_race_no_composites() -> None:
    A = few_in_every_panel()
    with asp.options(hybrid=True):
        made = context_of(A._cell, state_for(A._cell, A._cell.validate(), 64, False, operation="sddmm"))
        assert not raced(made, Effort.FULL)


@pytest.mark.parametrize("asked", [True, False])
def test_the_command_line_asks_for_composites(asked, matrix, tmp_path, monkeypatch, caplog):
    """Check that `tune --hybrid` packs composites and that `tune` without it does not."""
    path = tmp_path / "m.npz"
    sp.save_npz(path, sp.csr_array(matrix))
    monkeypatch.setattr(row_panels, "composites", lambda given, **_: [COMPOSITE] if given.options.hybrid else [])
    caplog.set_level("DEBUG", logger="autosparse")
    command = ["tune", str(path), "--columns", "16", "--effort", "measure", "--budget-s", f"{ENOUGH_S}"]
    assert main([*command, *(["--hybrid"] if asked else [])]) == 0
    packed = [str(record.facts.get("format")) for record in caplog.records if record.event == "pack"]
    assert (str(COMPOSITE) in packed) == asked
