"""Tests of the first look at a problem, which counts earlier processes and loads a remembered plan."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sps
from autosparse.cache import late, trust
from autosparse.cache.accounts import ledger
from autosparse.cache.accounts.rows import ACCOUNTS, EARLY, NOTHING_FASTER, PlanNote, Spent
from autosparse.cache.store import Store

import autosparse as asp
from autosparse import cache
from autosparse.core.formats import Format
from autosparse.core.plan import Candidate, Plan
from autosparse.core.schedule import SuperSchedule
from autosparse.core.solver import choice_of
from autosparse.dispatch import accounts, first_look, state
from autosparse.dispatch.state import DispatchState, state_for
from autosparse.notices import FallbackWarning, forget_warnings
from autosparse.tuning.live import LiveTuner
from autosparse.tuning.memory import notes, plan_lookup, recall
from autosparse.tuning.setup import context_of, live_tuner_of
from autosparse.tuning.trials import comparison
from tests.tuning.forcing import state_of, until

ORDERED = SuperSchedule(
    format=Format.parse("i1:U,k1:C | rows=degree"),
    loop_order=("i1", "k1"),
    implementation="runtime",
)
N = 300


def matrix(seed: int = 0) -> Any:
    blocks = sps.random_array((N // 2, N // 2), density=0.05, random_state=np.random.default_rng(seed))
    m = sps.csr_array(sps.kron(blocks, np.arange(1.0, 5.0).reshape(2, 2)))
    m.indices, m.indptr = m.indices.astype(np.int32), m.indptr.astype(np.int32)  # SciPy 1.13 draws int64
    return m


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Give each test a cache folder, and prevent tuning however long products take."""
    monkeypatch.setattr(state, "tuning_look_ns", lambda *_: 1e18)
    monkeypatch.setattr(state, "COLD_LOOK_S", 0.0)
    forget_warnings()
    with asp.options(cache_dir=tmp_path, extra_memory=50.0):
        yield tmp_path


def remembered(
    A: Any,
    schedule: SuperSchedule | None = ORDERED,
    *,
    effort: str = "full",
    is_asked: bool = True,
    measured_s: float = 1e-4,
) -> None:
    """Store a plan as if an earlier process had found it."""
    found = state_of(A)
    A._cell.refresh()
    context = context_of(A._cell, found)
    plan = Plan(
        choice=choice_of(schedule), why="a test", effort=effort, default_s=2.0 * measured_s, measured_s=measured_s
    )
    plan_lookup.remember(context, plan)
    context.store.flush()
    notes.note(context, plan, is_asked=is_asked)


def looked_at(A: Any) -> DispatchState:
    """Return the state of A's products after its first look."""
    found = state_of(A)
    found.next_look_ns = 0
    A @ np.ones(A.shape[1])
    return found


def account_of(folder: Path, A: Any) -> Any:
    found = state_of(A)
    return ledger.read(trust.root_of(folder), state.key_of(A._cell, found))


# -- a remembered plan -----------------------------------------------------------------------------------------------


def test_a_remembered_plan_serves_after_the_first_look():
    m, x = matrix(), np.arange(float(N))
    remembered(asp.csr(m, copy=True))
    A = asp.csr(m, copy=True)
    found = looked_at(A)
    assert found.serving is not None
    assert found.live_tuner is None
    np.testing.assert_allclose(A @ x, m @ x)
    assert found.n_tuned == 1
    A.data[:] *= 2.0
    np.testing.assert_allclose(A @ x, 2.0 * (m @ x))


def test_an_interrupted_look_is_made_again(monkeypatch):
    m, x = matrix(), np.ones(N)
    remembered(asp.csr(m, copy=True))
    A = asp.csr(m, copy=True)
    found = state_of(A)
    found.next_look_ns = 0

    def interrupted(*_: Any) -> None:
        assert found.next_look_ns > found.product_ns, "products of other threads do not look meanwhile"
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(recall, "serve", interrupted)
        with pytest.raises(KeyboardInterrupt):
            A @ x
    assert found.serving is None
    np.testing.assert_allclose(A @ x, m @ x)
    assert found.serving is not None


def test_tuning_that_comes_later_takes_the_kernel_over(monkeypatch):
    monkeypatch.setattr(LiveTuner, "_affordable", lambda *_: True)
    m, x = matrix(), np.ones(N)
    remembered(asp.csr(m, copy=True))
    A = asp.csr(m, copy=True)
    found = looked_at(A)
    first = found.serving
    monkeypatch.setattr(state, "tuning_look_ns", lambda *_: 0.0)
    for _ in range(20):
        found.next_look_ns = 0
        np.testing.assert_allclose(A @ x, m @ x)
        assert found.serving is not None
    assert found.live_tuner is not None
    assert found.serving is not first
    assert found.serving.packed_copy is not None
    assert found.serving.packed_copy.n_owners == 1
    assert found.live_tuner.session.incumbent is found.serving


@pytest.mark.parametrize("overhead", [0.04, 0.0])
def test_a_remembered_plan_that_does_not_pay_serves_later(overhead):
    """While the caller keeps an array, each product needs a look, which takes longer than the plan saves."""
    m, x = matrix(), np.arange(float(N))
    remembered(asp.csr(m, copy=True), measured_s=1e-6)
    A = asp.csr(m, copy=True)
    found = looked_at(A)
    assert found.serving is not None
    # with overhead 0 no plan is loaded, but a serving plan is still tested for whether it pays
    with asp.options(overhead=overhead):
        kept = A.data
        for _ in until(lambda: found.serving is None):
            kept *= 1.5
            np.testing.assert_allclose(A @ x, asp.csr(A, copy=True).to_scipy() @ x)
        del kept
        wanted = asp.csr(A, copy=True).to_scipy() @ x
        for _ in until(lambda: found.serving is not None):
            np.testing.assert_allclose(A @ x, wanted)
        assert found.live_tuner is None


def test_with_zero_overhead_no_cached_plan_is_loaded_unasked():
    m, x = matrix(), np.ones(N)
    remembered(asp.csr(m, copy=True))
    with asp.options(overhead=0.0):
        A = asp.csr(m, copy=True)
        found = looked_at(A)
        assert found.serving is None
    found.next_look_ns = 0
    np.testing.assert_allclose(A @ x, m @ x)  # options of a block end with it
    np.testing.assert_allclose(A @ x, m @ x)
    assert found.serving is not None


@pytest.mark.parametrize("what", ["another pattern", "other values", "another dtype", "transposed", "five columns"])
def test_a_plan_of_another_problem_is_not_recalled(what):
    remembered(asp.csr(matrix(), copy=True))
    m = matrix(1) if what == "another pattern" else matrix()
    if what == "other values":  # the pattern is the same, so the plan serves
        m.data *= 1.5
    m = m.astype(np.float32) if what == "another dtype" else m
    A = asp.csr(m, copy=True)
    B = np.ones((N, 5) if what == "five columns" else N, m.dtype)
    M = A.T if what == "transposed" else A
    operand = M._cell
    found = state_for(operand, operand.rows or operand.validate(), 5 if B.ndim == 2 else 1, what == "transposed")
    found.next_look_ns = 0
    np.testing.assert_allclose(M @ B, (m.T if what == "transposed" else m) @ B, rtol=1e-5)
    assert found.is_known
    assert (found.serving is not None) == (what == "other values")


def _flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(bytes(content))


@pytest.mark.parametrize("damage", ["record", "record gone", "stamp", "account", "wrong kernel", "failure"])
def test_untrusted_records_do_not_serve(own_cache, damage, monkeypatch):
    m, x = matrix(), np.arange(float(N))
    B = asp.csr(m, copy=True)
    remembered(B)
    root = trust.root_of(own_cache)
    (record,) = root.glob("records/plan-*/*/*.json")
    if damage == "record":
        _flip(record)
    elif damage == "record gone":
        record.unlink()
    elif damage == "stamp":
        monkeypatch.setattr(recall.stamps, "sources", lambda: "other sources")
    elif damage == "account":
        _flip(root / ACCOUNTS)
    elif damage == "failure":
        context = context_of(B._cell, state_of(B))
        failure = cache.Failure(reason="a test", compiler="none", failed_at=0.0)
        context.store.save("failure", context.spec(ORDERED).key(), failure.to_record())
    else:
        monkeypatch.setattr(comparison, "difference", lambda *_, **how: "1 instead of 2")
    A = asp.csr(m, copy=True)
    if damage == "wrong kernel":
        with pytest.warns(FallbackWarning, match="is not used"):
            found = looked_at(A)
        assert account_of(own_cache, A).plan is None, "the next process must not try it again"
    else:
        found = looked_at(A)
    assert found.serving is None
    np.testing.assert_allclose(A @ x, m @ x)


def test_a_recorded_default_plan_starts_no_tuning(own_cache):
    m = matrix()
    remembered(asp.csr(m, copy=True), None)
    A = asp.csr(m, copy=True)
    assert account_of(own_cache, A).plan.flags & NOTHING_FASTER
    found = looked_at(A)
    assert found.serving is None
    assert found.account is not None
    assert found.account.is_finished


def test_a_search_that_is_not_finished_leaves_its_plan_without_a_thread(own_cache, monkeypatch):
    """At exit the record must be written without a thread for delayed writes."""
    A = asp.csr(matrix(), copy=True)
    found = state_of(A)
    tuner = live_tuner_of(found, A._cell)
    assert tuner.session is not None
    context = tuner.session.context = context_of(A._cell, found)
    plan = Plan(choice=choice_of(ORDERED), why="a test", effort="estimate", default_s=2e-4, measured_s=1e-4)
    monkeypatch.setattr(plan_lookup, "plan_of", lambda *_, **__: plan)
    monkeypatch.setattr(late, "write_soon", lambda _: pytest.fail("a thread would write it"))
    trial = context(choice_of(ORDERED))
    tuner.session.search = SimpleNamespace(trials=[trial], measured_s={trial.choice: 1e-4})  # type: ignore[assignment]
    tuner.session.next_price_s = 0.35
    tuner.session.keep_unfinished()
    assert account_of(own_cache, A).next_step_s == 0.35
    assert Store(own_cache).load("plan", plan_lookup.key_of(context).stable_hash()) is not None
    assert account_of(own_cache, A).plan.measured_s == 1e-4
    tuner.session.search = None


def unfinished(times_s: dict[SuperSchedule, float], *, default_s: float, effort: str = "estimate") -> Plan:
    best = min(times_s, key=times_s.__getitem__)
    found = tuple(Candidate(choice=choice_of(one), measured_s=time_s, n_samples=9) for one, time_s in times_s.items())
    return Plan(
        choice=choice_of(best),
        why="a test",
        effort=effort,
        default_s=default_s,
        measured_s=times_s[best],
        candidates=found,
    )


def kept(own_cache: Path, context: Any, monkeypatch: pytest.MonkeyPatch, plan: Plan) -> Plan:
    """Return the recorded plan after a process has stored that of its unfinished search."""
    monkeypatch.setattr(plan_lookup, "plan_of", lambda *_, **__: plan)
    trial = context(choice_of(ORDERED))
    search = SimpleNamespace(trials=[trial], measured_s={trial.choice: 1e-4})
    plan_lookup.remember_measured(context, search, None, tune_s=0.1)  # type: ignore[arg-type]
    record = Store(own_cache).load("plan", plan_lookup.key_of(context).stable_hash())
    assert record is not None
    return cache.plan_from_record(record)


def test_two_unfinished_searches_merge_their_measurements(own_cache, monkeypatch):
    A = asp.csr(matrix(), copy=True)
    context, other = context_of(A._cell, state_of(A)), dataclasses.replace(ORDERED, chunk=8)
    kept(own_cache, context, monkeypatch, unfinished({ORDERED: 1e-4}, default_s=2e-4))
    found = kept(own_cache, context, monkeypatch, unfinished({other: 3e-4}, default_s=4e-4))
    times = {one.schedule: one.measured_s for one in found.candidates}
    # rescaled to one time of the default kernel
    assert times == {other: pytest.approx(3e-4), ORDERED: pytest.approx(2e-4)}
    assert found.schedule == other


def test_an_unfinished_search_replaces_no_plan_of_more_effort(own_cache, monkeypatch):
    A = asp.csr(matrix(), copy=True)
    remembered(A, effort="full")
    found = kept(own_cache, context_of(A._cell, state_of(A)), monkeypatch, unfinished({ORDERED: 1e-4}, default_s=2e-4))
    assert found.effort == "full"


def test_without_a_cache_an_unfinished_search_leaves_nothing(own_cache):
    with asp.options(cache=False):
        A = asp.csr(matrix(), copy=True)
        context = context_of(A._cell, state_of(A))
        notes.note_next_step(context, 0.35)
    assert not [one for one in own_cache.rglob("*") if one.is_file()]


# -- accounts --------------------------------------------------------------------------------------------------------


def opened(A: Any, **spent: Any) -> DispatchState:
    """Return the state of A's products with an account of these amounts."""
    found = state_of(A)
    found.is_known = True
    folder = Path(str(asp.get_options().cache_dir))
    found.account = accounts.ProblemAccount(folder, folder, os.urandom(16), spent=Spent(**spent))
    return found


@pytest.mark.parametrize(
    ("spent", "is_paid"),
    [
        ({}, False),
        ({"n_processes": 1, "product_s": 0.3, "life_s": 1.0}, False),  # earned in advance: 36 of 60 ms
        ({"n_processes": 6, "product_s": 1.8, "life_s": 6.0}, True),
        ({"n_processes": 6, "product_s": 1.8, "tuning_s": 0.2, "life_s": 6.0}, False),  # spent already
        ({"n_processes": 6, "product_s": 1.8, "tuning_s": 0.2, "saved_s": 0.1, "life_s": 6.0}, True),
        ({"n_processes": 3, "product_s": 0.6, "life_s": 2.4}, True),  # mean life of 0.8 s
        ({"n_processes": 30, "product_s": 9.0, "life_s": 9.0}, False),  # mean life of 0.3 s: too short
    ],
)
def test_earlier_processes_pay_for_the_modules_of_tuning(spent, is_paid, monkeypatch):
    monkeypatch.setattr(state, "tuning_look_ns", lambda *_: 1e9)
    assert first_look._tuning_look_ns(opened(asp.csr(matrix(), copy=True), **spent)) == (0.0 if is_paid else 1e9)


@pytest.mark.parametrize(
    ("product_s", "life_s", "next_step_s", "is_served", "is_paid"),
    [
        (3.0, 20.0, 0.0, True, True),
        (3.0, 20.0, 0.03, True, True),  # 70 ms, with the modules, is below the share `overhead` of a process's life
        (3.0, 20.0, 0.1, True, False),
        (3.0, 20.0, 0.1, False, True),  # no plan serves, and 140 ms is below a tenth of a process's life
        (3.0, 20.0, 0.35, False, False),  # no process can afford the step, so nothing is loaded
        (0.4, 20.0, 0.0, True, False),  # 5 % of the products to come are less than a search takes
        (3.0, 5.0, 0.0, True, False),  # a process of 0.5 s has no share that loads the modules
    ],
)
@pytest.mark.parametrize("flags", [0, EARLY])
def test_later_processes_search_within_their_share(
    product_s, life_s, next_step_s, is_served, is_paid, flags, monkeypatch
):
    """Check that what a served plan saves, in each process, pays for no search: the next one would take longer."""
    monkeypatch.setattr(state, "tuning_look_ns", lambda *_: 1e9)
    spent = {"n_processes": 10, "product_s": product_s, "saved_s": 1.5, "life_s": life_s}
    found = opened(asp.csr(matrix(), copy=True), **spent)
    assert found.account is not None
    found.account.plan = PlanNote(plan=b"p" * 16, stamp=b"s" * 16, flags=flags)
    found.account.next_step_s, found.account.is_served = next_step_s, is_served
    assert first_look._tuning_look_ns(found) == (0.0 if is_paid else 1e9)


@pytest.mark.parametrize(
    ("note", "spent", "pays"),
    [
        ({"flags": 2}, {}, True),  # the user asked for this plan
        ({"default_s": 2e-4, "measured_s": 1e-4}, {}, False),  # it is unknown how long processes compute
        ({"default_s": 2e-4, "measured_s": 1e-4}, {"n_processes": 2, "product_s": 0.1}, True),  # saves 25 ms for 5
        ({"default_s": 2e-4, "measured_s": 1e-4}, {"n_processes": 2, "product_s": 0.01}, False),
        ({"default_s": 2e-4, "measured_s": 1.98e-4}, {"n_processes": 2, "product_s": 0.1}, False),
    ],
)
def test_a_plan_is_recalled_where_it_pays(note, spent, pays):
    A = asp.csr(matrix(), copy=True)
    found = opened(A, **spent)
    plan = PlanNote(plan=b"p" * 16, stamp=b"s" * 16, **note)
    assert first_look._pays(found, A._cell, found.account, plan) == pays


def test_an_account_is_collected_once():
    found = opened(asp.csr(matrix(), copy=True))
    assert found.account is not None
    name = found.account.folder, found.account.key
    for n_calls in (10, 25, 25):
        found.n_calls, found.product_ns = n_calls, n_calls * 1000
        found.account.collect(found)
    assert accounts.PENDING[name] == pytest.approx((25, 1, 25e-6, 0.0, 0.0))
