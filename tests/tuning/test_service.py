"""Tests that the kernel of a plan is chosen when products run, by the cost of checks and repacking."""

from __future__ import annotations

import dataclasses
import gc
import weakref
from typing import Any

import numpy as np
import pytest
from autosparse._native import runtime_api
from autosparse.cache import trust

import autosparse as asp
from autosparse import cache
from autosparse.core.plan import Plan
from autosparse.core.solver import choice_of
from autosparse.dispatch import fast_path
from autosparse.errors import RecordError
from autosparse.tuning import planner
from autosparse.tuning.live import LiveTuner
from autosparse.tuning.memory import plan_lookup
from autosparse.tuning.setup import context_of, live_tuner_of, session_of
from tests.tuning.forcing import close, dense, force, make, schedule_of, state_of, until

pytestmark = pytest.mark.skipif(not runtime_api.available, reason="the C runtime was not built")

SMALL_GAIN = {"default_s": 2e-6, "measured_s": 1e-6}
"""Gain below the cost of a product with a check through Python, so that no check pays off on any machine."""
LARGE_GAIN = {"default_s": 2.0, "measured_s": 1.0}
"""Gain above the cost of any check or repacking."""


def install(A: Any, plan: Plan) -> Any:
    """Make products of `A` with one column run `plan`; return its trial."""
    operand, state = A._cell, state_of(A)
    operand.refresh()
    context = context_of(operand, state)
    decision = planner.adopt(context, plan)
    live_tuner = live_tuner_of(state, operand)
    live_tuner.install(session_of(live_tuner, operand, (context, decision)))
    return decision.trial


def plan_of(name: str = "blocks", *, in_place: str = "", **times: float) -> Plan:
    in_place_terms = {"in_place": schedule_of(in_place, 1), "in_place_s": 1.5e-6} if in_place else {}
    return Plan(choice=choice_of(schedule_of(name, 1)), why="", effort="measure", **times, **in_place_terms)


def test_a_shared_matrix_is_multiplied_without_checks_until_its_source_is_freed() -> None:
    m = make()
    A = asp.csr(m, copy=False)
    trial = install(A, plan_of(**SMALL_GAIN))
    assert trial.ready
    assert state_of(A).serving is None
    n_looks = A._cell.n_looks
    for _ in range(50):
        A @ dense(A, 0)
    assert A._cell.n_looks == n_looks
    del m
    x, wanted = dense(A, 0), A.to_scipy() @ dense(A, 0)
    for _ in until(lambda: state_of(A).serving is trial):
        close(A @ x, wanted)
    assert trial.packed_copy is not None


def test_a_gain_beyond_the_look_is_taken_also_while_sharing() -> None:
    m = make()
    A = asp.csr(m, copy=False)
    trial = install(A, plan_of(**LARGE_GAIN))
    x = dense(A, 0)
    for step in range(20):
        m.data[step] += 1.0
        close(A @ x, m @ x)
    assert state_of(A).serving is trial


@pytest.mark.parametrize("overhead", [0.04, 0.0])
def test_an_array_that_is_kept_changes_over_and_back(overhead: float) -> None:
    """Check with tuning enabled, and with tuning only on request."""
    with asp.options(overhead=overhead):
        A = asp.csr(make(), copy=True)
        trial = install(A, plan_of(**SMALL_GAIN))
        assert state_of(A).serving is trial
        kept = A.data
        x = dense(A, 0)
        for _ in until(lambda: state_of(A).serving is None):
            close(A @ x, asp.csr(A, copy=True).to_scipy() @ x)
        kept[:] = 2.0
        close(A @ x, asp.csr(A, copy=True).to_scipy() @ x)
        del kept
        wanted = asp.csr(A, copy=True).to_scipy() @ x
        for _ in until(lambda: state_of(A).serving is trial):
            close(A @ x, wanted)


def test_values_written_before_each_product_are_seen_and_the_default_kernel_serves() -> None:
    A = asp.csr(make(), copy=True)
    install(A, plan_of(**SMALL_GAIN))
    x = dense(A, 0)
    for n in until(lambda: state_of(A).serving is None):
        assert n < 40
        A.data *= 1.001
        close(A @ x, asp.csr(A, copy=True).to_scipy() @ x)
    state_of(A).commit()
    n_tuned = state_of(A).n_tuned
    for _ in range(60):
        A.data *= 1.001
        close(A @ x, asp.csr(A, copy=True).to_scipy() @ x)
    assert state_of(A).n_tuned - n_tuned <= 8


def test_a_kernel_on_the_users_arrays_serves_where_a_packed_copy_does_not_pay() -> None:
    m = make()
    force(asp.csr(m, copy=True), schedule_of("csr", 1))  # compiles the kernel: a remembered plan starts no compiler
    A = asp.csr(m, copy=False)
    trial = install(A, plan_of(in_place="csr", **SMALL_GAIN))
    serving = state_of(A).serving
    assert serving is not None
    assert serving is not trial
    assert serving.reads_live
    x = dense(A, 0)
    for step in range(30):
        m.data[step] = 7.0
        close(A @ x, m @ x)
    assert state_of(A).serving is serving


@pytest.mark.parametrize("is_first_shared", [True, False])
def test_plans_serve_sharing_and_owning_matrices_alike(is_first_shared: bool) -> None:
    m = make()
    first, second = asp.csr(m, copy=not is_first_shared), asp.csr(m, copy=is_first_shared)
    trial = install(first, plan_of(**SMALL_GAIN))
    plan_lookup.remember(trial.context, plan_of(**SMALL_GAIN))
    assert (state_of(first).serving is None) == is_first_shared
    plan = second.tune(effort="measure")
    assert plan.remembered
    assert plan.schedule == trial.schedule
    assert (state_of(second).serving is not None) == is_first_shared
    assert state_of(second).live_tuner.session.incumbent.ready


def test_a_plan_is_not_compared_while_it_does_not_serve() -> None:
    m = make()
    A = asp.csr(m, copy=False)
    trial = install(A, plan_of(**SMALL_GAIN))
    for _ in range(3000):
        A @ dense(A, 0)
    state = state_of(A)
    state.commit()
    assert state.live_tuner.session.incumbent is trial
    assert state.n_tuned <= 0.02 * state.n_calls


def test_samples_by_fast_call_are_accounted_for() -> None:
    m = make()
    A = asp.csr(m, copy=False)
    trial = install(A, plan_of(**LARGE_GAIN))
    x, out = dense(A, 0), np.empty(A.shape[0], A.dtype)
    A @ x
    n_looks, spent_s = A._cell.n_looks, trial.service.choice.spent_s
    assert fast_path.sampled_ns(A._cell, state_of(A), x, out) is not None
    close(out, m @ x)
    assert A._cell.n_looks > n_looks
    assert trial.looked_ns > 0
    assert trial.service.choice.spent_s >= spent_s + trial.looked_ns * 1e-9
    assert trial.service._n_looks == A._cell.n_looks


@pytest.mark.usefixtures("tuned_is_slower")
def test_a_kernel_in_place_that_is_slower_is_given_up_alone() -> None:
    m = make()
    force(asp.csr(m, copy=True), schedule_of("csr", 1))
    A = asp.csr(m, copy=False)
    trial = install(A, plan_of(in_place="csr", **SMALL_GAIN))
    state, x = state_of(A), dense(A, 0)
    assert state.serving is not None
    for _ in until(lambda: state.live_tuner.session.in_place is None):
        A @ x
    for _ in range(4):
        A @ x
    assert state.serving is None
    assert state.live_tuner.session.incumbent is trial


def test_looks_are_not_counted_as_saved_time() -> None:
    A = asp.csr(make(), copy=True)
    install(A, plan_of(**LARGE_GAIN))
    live_tuner = state_of(A).live_tuner
    assert isinstance(live_tuner, LiveTuner)
    for _ in range(10):
        A.data *= 1.001
        A @ dense(A, 0)
    looked_s = live_tuner.service.choice.spent_s
    assert looked_s > 0.0
    multiplied_s = max(
        0.0, state_of(A).tuned_ns * 1e-9 - looked_s
    )  # without looks: the default kernel takes twice this
    assert live_tuner.account().saved_s <= multiplied_s - looked_s + 1e-12


def test_a_packed_copy_goes_with_the_matrix_also_where_something_else_serves() -> None:
    m = make()
    A = asp.csr(m, copy=False)
    bound = weakref.ref(install(A, plan_of(**SMALL_GAIN)).bound)
    gc.disable()
    try:
        del A
        assert bound() is None
    finally:
        gc.enable()


def test_records_name_both_kernels_and_broken_ones_are_ignored() -> None:
    plan = plan_of(in_place="csr", **SMALL_GAIN)
    record = cache.plan_to_record(plan)
    assert cache.plan_from_record(record).in_place == plan.in_place
    assert cache.plan_from_record(record).in_place_s == plan.in_place_s
    older = {name: value for name, value in record.items() if not name.startswith("in_place")}
    assert cache.plan_from_record(older).in_place is None
    with pytest.raises(RecordError):
        cache.plan_from_record(record | {"in_place": "i1:U,k1:C"})
    assert cache.KINDS["plan"].schema == trust.PLAN_SCHEMA > 2, "older plans lie in another folder, under other keys"


def test_a_kernel_in_place_that_is_foreign_is_left_out(tmp_path: Any) -> None:
    A = asp.csr(make(), copy=True)
    with asp.options(cache_dir=tmp_path):
        context = context_of(A._cell, state_of(A))
        plan = plan_of(in_place="csr", **LARGE_GAIN)
        foreign = schedule_of("csr", 8)
        plan = dataclasses.replace(plan, in_place=dataclasses.replace(foreign, operation="sddmm"))
        plan_lookup.remember(context, plan)
        found = plan_lookup.recall(context)
        assert found is not None
        assert found.schedule == plan.schedule
        assert found.in_place is None
        assert A.tune(effort="measure").schedule == plan.schedule
        np.testing.assert_allclose(A @ dense(A, 0), A.to_scipy() @ dense(A, 0), rtol=1e-4, atol=1e-4)
