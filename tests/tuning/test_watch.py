"""Tests of comparisons after tuning: a faster kernel computes nearly all products; a slower one is dropped."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from autosparse._native import runtime_api
from autosparse.tuner.space import families as space

import autosparse
from autosparse.core.composite import REST, Composite, Part, Rows
from autosparse.core.plan import Plan
from autosparse.core.solver import choice_of
from autosparse.dispatch import fast_path
from autosparse.dispatch.state import state_for
from autosparse.tuning import confirmation, planner
from autosparse.tuning.memory import plan_lookup
from autosparse.tuning.setup import session_of
from tests.tuning.forcing import ENOUGH_S, force, make, state_of, until

pytestmark = pytest.mark.skipif(not runtime_api.available, reason="the C runtime was not built")


def test_pauses_between_comparisons_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(confirmation, "WATCH_MARGIN", float("inf"))  # independent of other load on the machine
    A = autosparse.csr(make(), copy=True)
    x = np.ones(A.shape[1], np.float32)
    force(A, space.schedule("matmul", "csr", {}))
    state = state_of(A)
    for _ in range(3000):
        A @ x
    state.commit()
    # Comparisons of 8 rounds come after 64, 256, 1024, ... products: the default kernel computes at most 60 of them.
    assert state.n_calls == 3000
    assert state.n_calls - state.n_tuned <= 60


def slow_products(A, *, columns: int = 8, out: bool = False, before: Callable[[], None] = lambda: None):
    """Run products until the plan is dropped, at most 400, and `before` in front of each; return their number."""
    shape = (A.shape[1], columns) if columns > 1 else (A.shape[1],)
    B = np.ones(shape, A.dtype)
    C = np.empty((A.shape[0], *shape[1:]), A.dtype)
    state = state_of(A, columns)
    for n in range(400):
        if state.serving is None and state.live_tuner.session.incumbent is None:
            return n
        before()
        assert (autosparse.matmul(A, B, out=C) if out else A @ B).shape == C.shape
    raise AssertionError("a kernel many times slower than the default one still serves")


BLOCKS = ("bcsr", {"r": 8, "c": 8})
"""Format that is slow for scattered entries: 64 multiplications for each."""


def make_slow(*, columns: int = 8):
    """Return a matrix whose products run by an installed kernel that is many times slower than the default one."""
    A = autosparse.csr(make(800, 800), copy=True)
    schedule = space.schedule("matmul", *BLOCKS, tile=8 if columns > 1 else 0)
    force(A, schedule, columns=columns)
    return A


@pytest.mark.usefixtures("tuned_is_slower", "paid")
@pytest.mark.parametrize("width", [8, 6], ids=["its width", "another width of the bucket"])
@pytest.mark.parametrize("out", [False, True], ids=["fresh", "out="])
def test_a_slow_plan_is_given_up(*, out: bool, width: int) -> None:
    with autosparse.options(extra_memory=200.0, overhead=0.04, budget_s=0.0 if out else 10.0):
        A = make_slow()
        assert slow_products(A, columns=width, out=out) < 200
        assert "stopped being faster" in state_of(A, width).live_tuner.current_plan().why


@pytest.mark.usefixtures("tuned_is_slower", "paid")
def test_a_slow_composite_is_given_up() -> None:
    slow = space.schedule("matmul", *BLOCKS, tile=8)
    with autosparse.options(extra_memory=200.0):
        A = autosparse.csr(make(800, 800), copy=True)
        force(A, Composite(parts=(Part(Rows(9), slow), Part(REST, slow))), columns=8)
        assert slow_products(A) < 200


@pytest.mark.usefixtures("tuned_is_slower", "paid")
def test_a_slow_plan_is_given_up_by_fast_call() -> None:
    with autosparse.options(extra_memory=200.0):
        A = make_slow()
        state = state_of(A, 8)

        def arm() -> None:
            state.fast_path_due = 0
            fast_path.arm(A._cell, state, n_dims=2, n_vecs=8)
            paths.append(state.fast_path)

        paths: list[Any] = []
        A @ np.ones((A.shape[1], 8), A.dtype)
        arm()
        if state.fast_path is None or state.fast_path.trial is None:
            pytest.skip("this interpreter has no fast call")
        assert slow_products(A, columns=8, before=arm) < 200
        assert sum(one.has_served and one.trial is not None for one in dict.fromkeys(paths)) > 0


@pytest.mark.usefixtures("tuned_is_slower", "paid")
def test_a_slow_plan_from_the_cache_is_given_up_and_forgotten(tmp_path) -> None:
    with autosparse.options(extra_memory=200.0, cache_dir=tmp_path, runs=1_000_000, overhead=1.0):
        A = make_slow()
        context = state_of(A, 8).serving.context
        plan_lookup.remember(
            context, Plan(choice=choice_of(space.schedule("matmul", *BLOCKS, tile=8)), why="", effort="full")
        )
        other = autosparse.csr(make(800, 800), copy=True)
        B = np.ones((other.shape[1], 8), other.dtype)
        for _ in until(lambda: state_of(other, 8).serving is not None):  # until the plan is adopted
            other @ B
        slow_products(other, columns=8)
        assert plan_lookup.recall(context).is_default


@pytest.mark.usefixtures("tuned_is_slower")
def test_a_slow_plan_of_another_operation_is_given_up() -> None:
    A = autosparse.csr(make(800, 800), copy=True)
    with autosparse.options(extra_memory=200.0, budget_s=ENOUGH_S):
        X = np.ones((800, 8), np.float32)
        A.tune("sddmm", columns=8, effort="estimate")
        live_tuner = state_for(A._cell, A._cell.rows, 8, False, operation="sddmm").live_tuner
        context = live_tuner.session.context
        found = planner.adopt(context, Plan(choice=choice_of(space.schedule("sddmm", *BLOCKS, tile=8)), why=""))
        assert found.trial is not None
        live_tuner.install(session_of(live_tuner, A._cell, (context, found)))
        for _ in range(400):
            autosparse.sddmm(A, X, X.T)
            if live_tuner.session.incumbent is None:
                return
        raise AssertionError("a slow kernel still serves")
