"""Tests of composites in products: they serve, see new values, are remembered and explained, and can be forbidden."""

from __future__ import annotations

import dataclasses
import re
import time
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from autosparse._native.kernels.composite import is_swept
from autosparse.tuner.hybrid.partitions import Partition

import autosparse as asp
from autosparse import cache
from autosparse.cli import main
from autosparse.config import Effort
from autosparse.core.composite import REST, Blocks, Composite, Part, Rows
from autosparse.core.plan import Plan
from autosparse.core.schedule import RUNTIME, SuperSchedule
from autosparse.core.solver import DEFAULT, choice_of
from autosparse.dispatch.state import state_for
from autosparse.tuning.hybrid import HybridDivider, divider_of
from autosparse.tuning.setup import context_of
from autosparse.tuning.solvers.candidates import search_for
from autosparse.tuning.sweeps import panels
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


def test_composites_are_searched_by_option_and_effort(matrix):
    def wanted(effort: str, **options: Any) -> bool:
        with asp.options(**options):
            made = divider_of(context(matrix), effort=Effort(effort), budget_s=1.0, known=None, clock=time.perf_counter)
        return made is not None

    assert wanted("measure", hybrid=True)
    assert not wanted("full", hybrid=False)
    assert not wanted("full")  # too small to gain unless asked for


@pytest.mark.parametrize(
    ("l2_bytes", "n_each", "is_divided"), [(1 << 10, 18, True), (1 << 10, 40, False), (1 << 30, 18, False)]
)
def test_rows_are_divided_where_parts_read_copied_panels_of_B(l2_bytes: int, n_each: int, is_divided: bool) -> None:
    """Check that rows are divided only where parts copy B into panels and a single format does not.

    A single format copies as well for more reads of B, and no format copies a cache-resident B.
    """
    rng = np.random.default_rng(0)
    dense = rng.random((400, 400)) < n_each / 400
    dense[::50, ::3] = True
    made = context(asp.csr(sp.csr_array(dense.astype(np.float32)), copy=True))
    made.problem = dataclasses.replace(made.problem, target=dataclasses.replace(made.problem.target, l2_bytes=l2_bytes))
    with asp.options(hybrid=True):
        divider = HybridDivider(made, 1.0)
    assert any("dense" in one.kinds for one in divider.partitions()) is is_divided


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


def test_blocks_beside_scattered_entries_need_no_compiler():
    """Check that blocks and the rest race by kernels of the runtime, even with no time to search parts."""
    rng = np.random.default_rng(0)
    cells = np.kron(rng.random((60, 60)) < 0.1, np.ones((4, 4))) + (rng.random((240, 240)) < 0.04)
    wide, narrow = (context(asp.csr(sp.csr_array(cells.astype(np.float32))), columns) for columns in (64, 1))
    fused = [one for one in HybridDivider(wide, 0.0)() if isinstance(one, Composite)]
    assert fused[0].window
    assert {one.implementation for one in fused[0].parts} == {RUNTIME}
    assert not [one for one in HybridDivider(narrow, 0.0)() if isinstance(one, Composite) and one.window]


def test_dense_rows_beside_the_rest_need_no_compiler(matrix):
    """Check that dense rows side by side race by kernels of the runtime, even with no time to search parts."""
    rng = np.random.default_rng(0)
    dense = (rng.random((200, 300)) < 0.02) * 1.0
    dense[::20, ::2] = 1.0
    made = context(asp.csr(sp.csr_array(dense.astype(np.float32))), 64)
    found = [one for one in HybridDivider(made, 0.0)() if isinstance(one, Composite)]
    assert "k1:U,i1:U,k0:C,i0:U" in str(found[0])
    assert is_swept(found[0])
    assert {one.implementation for one in found[0].parts} == {RUNTIME}


def test_composites_without_a_compiler_race_before_the_others(monkeypatch):
    """Check that composites without a compiler come first, whatever the order of partitions."""
    rng = np.random.default_rng(0)
    dense = (rng.random((200, 300)) < 0.02) * 1.0
    dense[::20, ::2] = 1.0
    made = context(asp.csr(sp.csr_array(dense.astype(np.float32))), 64)
    long = Partition((Rows(9), REST), ("long", "rest"), 0.8)
    by_panels = Partition((Rows(100), REST), ("dense", "rest"), 0.9)
    monkeypatch.setattr(HybridDivider, "partitions", lambda *given: [long, by_panels])
    monkeypatch.setattr(HybridDivider, "_searched", lambda *given: [COMPOSITE])
    found = [one for one in HybridDivider(made, 9.0)() if isinstance(one, Composite)]
    assert found[-1] == COMPOSITE
    assert is_swept(found[0])


def test_sampled_products_race_no_parts_of_one_format():
    """Check that sampled products race no composite of dense rows and the rest, which both run the same loops."""
    rng = np.random.default_rng(0)
    dense = (rng.random((200, 300)) < 0.02) * 1.0
    dense[::20, ::2] = 1.0
    A = asp.csr(sp.csr_array(dense.astype(np.float32)))
    made = context_of(A._cell, state_for(A._cell, A._cell.validate(), 64, False, operation="sddmm"))
    divider = HybridDivider(made, 0.0)
    assert divider() == []
    assert any("dense" in one.kinds for one in divider.found)


def test_parts_are_searched_where_their_kernels_can_be_compiled(monkeypatch):
    """Check that parts are searched only where the budget exceeds the time of one compilation by enough.

    Otherwise the budget is better spent on compiling single formats.
    """
    rng = np.random.default_rng(0)
    made = context(asp.csr(sp.csr_array((rng.random((200, 300)) < 0.02).astype(np.float32))), 64)
    long = Partition((Rows(9), REST), ("long", "rest"), 0.8)
    monkeypatch.setattr(HybridDivider, "partitions", lambda *given: [long])
    monkeypatch.setattr(HybridDivider, "_searched", lambda *given: [COMPOSITE])
    compile_s = made.stats.cost_estimates.price_s("compile")
    assert COMPOSITE in HybridDivider(made, 9.0 * compile_s)()
    assert COMPOSITE not in HybridDivider(made, 1.5 * compile_s)()


@pytest.mark.parametrize(("ratio", "is_tried"), [(0.8, True), (0.9, False)])
def test_blocks_that_are_planned_to_gain_little_are_not_tried(
    ratio: float, is_tried: bool, matrix, monkeypatch
) -> None:
    """Check that block partitions of a small planned gain are left out; other partitions of the same gain stay."""
    blocks = Partition((Blocks(4, 4, 0.5), REST), ("blocks", "rest"), ratio)
    rows = [Partition((Rows(9), REST), (kind, "rest"), ratio) for kind in ("dense", "long")]
    monkeypatch.setattr("autosparse.tuning.hybrid.partitions", lambda *given, **named: [*rows, blocks])
    assert HybridDivider(context(matrix), 1.0).partitions() == [*rows, *([blocks] if is_tried else [])]


def test_narrow_products_search_no_parts(matrix, monkeypatch):
    """Check that products with one column neither search parts nor race a composite of one format in two parts."""
    monkeypatch.setattr(HybridDivider, "_searched", lambda *given: pytest.fail("parts are searched"))
    partition = Partition((Rows(20), REST), ("long", "rest"), 0.9)
    monkeypatch.setattr(HybridDivider, "partitions", lambda *given: [partition])
    assert HybridDivider(context(matrix, 1), 1.0)() == []


@pytest.mark.parametrize("asked", [True, False])
def test_the_command_line_asks_for_composites(asked, matrix, tmp_path, monkeypatch, caplog):
    """Check that `tune --hybrid` packs composites and that `tune` without it does not."""
    path = tmp_path / "m.npz"
    sp.save_npz(path, sp.csr_array(matrix))
    monkeypatch.setattr(HybridDivider, "__call__", lambda self: [COMPOSITE])
    caplog.set_level("DEBUG", logger="autosparse")
    command = ["tune", str(path), "--columns", "16", "--effort", "measure", "--budget-s", f"{ENOUGH_S}"]
    assert main([*command, *(["--hybrid"] if asked else [])]) == 0
    packed = [str(record.facts.get("format")) for record in caplog.records if record.event == "pack"]
    assert (str(COMPOSITE) in packed) == asked
