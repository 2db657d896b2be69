"""Tests of options blocks: options that set the cache or the search budget do not decide which plan serves."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sps
from autosparse._native import runtime_api

import autosparse as asp
from autosparse import cache
from autosparse.config import SETTINGS, decisive_options, get_options
from autosparse.core.plan import Plan
from autosparse.core.solver import choice_of
from autosparse.dispatch import executor, fast_path
from autosparse.dispatch import state as states
from autosparse.operands import csr
from autosparse.tuning import planner
from autosparse.tuning.memory import plan_lookup
from tests.tuning.forcing import close, dense, force, make, schedule_of, state_of, until
from tests.tuning.test_service import install

pytestmark = pytest.mark.skipif(not runtime_api.available, reason="the C runtime was not built")

INDECISIVE: dict[str, Any] = {
    "cache": False, "cache_max_bytes": 1 << 20, "budget_s": 1.0, "overhead": 0.5, "background": True,
    "output_pool_bytes": 1 << 20, "runs": 10, "wait": "passive", "share": True,
}  # fmt: skip


@pytest.mark.parametrize("name", [*INDECISIVE, "cache_dir", "dump_dir"])
def test_a_plan_found_inside_a_block_serves_after_it(name: str, tmp_path: Path) -> None:
    A = asp.csr(make(), copy=True)
    with asp.options(**{name: INDECISIVE.get(name, tmp_path)}):
        trial = force(A, schedule_of("csr", 1))
        inside = state_of(A)
    assert state_of(A) is inside
    assert state_of(A).serving is trial
    close(A @ dense(A, 0), A.to_scipy() @ dense(A, 0))


def test_blocks_of_equal_decisive_values_are_one_object() -> None:
    assert set(INDECISIVE) <= set(SETTINGS)
    before = decisive_options()
    for name, value in INDECISIVE.items():
        with asp.options(**{name: value}):
            assert decisive_options() is before
    with asp.options(threads=1):
        inside = decisive_options()
        assert inside is not before
    with asp.options(threads=1, cache=False):
        assert decisive_options() is inside


def test_a_block_looks_for_the_state_once(monkeypatch: pytest.MonkeyPatch) -> None:
    found = []
    real = executor.state_for
    monkeypatch.setattr(executor, "state_for", lambda *args, **named: found.append(1) or real(*args, **named))
    monkeypatch.setattr(csr, "_BEGIN_NS", csr.NOT_SMALL_NS)  # no small products before states exist
    monkeypatch.setattr(states, "FIRST_FAST_PATH", 2)
    A, x = asp.csr(make(300, 300), copy=True), np.ones(300, np.float32)
    with asp.options(effort="off"):
        for _ in range(20):
            A @ x
        found.clear()
        for _ in range(4):
            with asp.options(cache=False):
                A @ x
                A @ x
        assert not found
        enter = A._cell.fast_path
        with asp.options(threads=1):
            for _ in range(20):
                A @ x
        A @ x
        assert len(found) == 2
    if enter is not None:  # it is open while nothing decisive changes
        with asp.options(effort="off", budget_s=3.0):
            assert enter(A._cell, x, np.empty(300, np.float32), decisive_options(), False)


def test_blocks_that_follow_each_other_make_no_way_by_fast_call_each(monkeypatch: pytest.MonkeyPatch) -> None:
    made = []
    original = fast_path.FastPath.__init__

    def counted(self: Any, *args: Any, **named: Any) -> None:
        made.append(1)
        original(self, *args, **named)

    monkeypatch.setattr(fast_path.FastPath, "__init__", counted)
    monkeypatch.setattr(states, "FIRST_FAST_PATH", 2)
    A = asp.csr(make(), copy=True)
    force(A, schedule_of("csr", 1))
    x = dense(A, 0)
    wanted = A.to_scipy() @ x
    for _ in range(60):
        for _ in range(6):
            A @ x
        with asp.options(threads=1, effort="off"):
            for _ in range(6):
                close(A @ x, wanted)
    assert len(made) <= 20


def test_a_block_sets_and_restores_process_wide_runtime_settings() -> None:
    A = asp.csr(make(), copy=True)
    A @ dense(A, 0)
    before = runtime_api._held_isa, runtime_api._held_wait
    with asp.options(isa="baseline", wait="passive"):
        assert (runtime_api._held_isa, runtime_api._held_wait) == ("baseline", "passive")
        with asp.options(wait="active"):
            assert (runtime_api._held_isa, runtime_api._held_wait) == ("baseline", "active")
        assert runtime_api._held_wait == "passive"
    assert (runtime_api._held_isa, runtime_api._held_wait) == before


def test_a_plan_for_two_threads_does_not_serve_where_one_is_allowed() -> None:
    A = asp.csr(make(), copy=True)
    with asp.options(threads=2):
        trial = force(A, schedule_of("csr", 1))
        assert state_of(A).serving is trial
    with asp.options(threads=1):
        assert state_of(A).serving is None
    with asp.options(threads=2, budget_s=1.0):
        assert state_of(A).serving is trial


@pytest.mark.parametrize("options", [{"deterministic": True}, {"effort": "off"}, {"isa": "baseline"}])
def test_a_plan_does_not_serve_where_options_exclude_it(options: dict[str, Any]) -> None:
    A = asp.csr(make(), copy=True)
    trial = force(A, schedule_of("csr", 1))
    asked = get_options()
    is_excluded = any(getattr(asked, name) != value for name, value in options.items())  # else nothing is changed
    with asp.options(**options):
        assert state_of(A).serving is (None if is_excluded else trial)
    assert state_of(A).serving is trial


@pytest.mark.parametrize("options", [{"storage": "bfloat16"}, {"hybrid": False}, {"hybrid": True}])
def test_a_plan_serves_wherever_options_allow_it(options: dict[str, Any]) -> None:
    for inside, outside in ((options, {}), ({}, options)):
        A = asp.csr(make(), copy=True)
        with asp.options(**inside):
            A @ dense(A, 0)
            trial = force(A, schedule_of("csr", 1))
        with asp.options(**outside):
            assert state_of(A).serving.schedule == trial.schedule
            close(A @ dense(A, 0), A.to_scipy() @ dense(A, 0))


def test_a_plan_that_was_lent_is_weighed_for_each_state_alone() -> None:
    m = make()
    A = asp.csr(m, copy=False)
    small = Plan(choice=choice_of(schedule_of("blocks", 1)), why="", effort="measure", default_s=2e-6, measured_s=1e-6)
    install(A, small)
    assert state_of(A).serving is None
    for _ in range(3):
        with asp.options(hybrid=False):
            A @ dense(A, 0)
            inside = state_of(A)
            assert inside.live_tuner.session.incumbent is not None
            assert inside.serving is None
        A @ dense(A, 0)
        assert state_of(A).serving is None
    own, lent = (one.live_tuner.session.incumbent for one in (state_of(A), inside))
    assert own is not lent
    assert own.packed_copy is lent.packed_copy
    assert own.packed_copy.n_owners == 2
    assert own.service.state is state_of(A)
    assert lent.service.state is inside


def test_rounded_values_are_used_only_on_request() -> None:
    A = asp.csr(make(), copy=True)
    schedule = schedule_of("blocks", 8)
    rounded = with_values(schedule, "bfloat16")
    with asp.options(storage="bfloat16"):
        trial = force(A, rounded, columns=8)
        assert state_of(A, 8).serving is trial
    for options in ({}, {"storage": "float16"}):
        with asp.options(**options):
            assert state_of(A, 8).serving is None
            close(A @ dense(A, 8), A.to_scipy() @ dense(A, 8))


def with_values(schedule: Any, values: str) -> Any:
    """Return the schedule with values rounded to `values`."""
    return dataclasses.replace(schedule, format=dataclasses.replace(schedule.format, values=values))


def plans_of(folder: Path) -> list[Path]:
    cache.open_store().flush()
    return [one for one in folder.rglob("*") if one.is_file() and "plan" in str(one.relative_to(folder))]


def test_plans_found_without_a_cache_are_never_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = sps.random_array(
        (400, 400), density=0.05, format="csr", random_state=np.random.default_rng(0), dtype=np.float32
    )
    x = np.ones(400, np.float32)
    with asp.options(cache_dir=tmp_path):
        A = asp.csr(plain, copy=True)
        with asp.options(cache=False):
            A.tune(effort="measure", budget_s=2.0)
        for _ in range(300):  # products of the same state, with a cache
            A @ x
        state = state_of(A)
        if state.live_tuner.session.incumbent is not None:  # a later change of the plan is not written either
            state.live_tuner.session.plan = planner.default_plan("x")
            plan_lookup.remember(state.live_tuner.session.context, state.live_tuner.session.plan)
        assert not plans_of(tmp_path)


@pytest.mark.usefixtures("paid")
def test_tuning_that_goes_on_inside_a_block_without_a_cache_writes_nothing(tmp_path: Path) -> None:
    plain = sps.random_array(
        (400, 400), density=0.05, format="csr", random_state=np.random.default_rng(0), dtype=np.float32
    )
    x = np.ones(400, np.float32)
    with asp.options(cache_dir=tmp_path, overhead=1.0, runs=10**12, budget_s=1000.0):
        A = asp.csr(plain, copy=True)
        state = state_of(A)
        for _ in until(lambda: state.live_tuner is not None and state.live_tuner.session.context is not None):
            A @ x
        for _ in until(lambda: state.live_tuner.session.is_finished):
            with asp.options(cache=False):
                A @ x
        for _ in range(100):
            A @ x
        assert not plans_of(tmp_path)
