"""Tests of tuning that was not asked for: what it costs, when it stops, and what it stores for the next process."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from autosparse.tuner.search.trial import Pause, Sample, Work
from hypothesis import given
from hypothesis import strategies as st

import autosparse as asp
from autosparse import cache
from autosparse.core.plan import Plan
from autosparse.core.schedule import SuperSchedule
from autosparse.core.solver import choice_of
from autosparse.dispatch.state import DispatchState
from autosparse.tuning import live, planner
from autosparse.tuning.live import LiveTuner
from autosparse.tuning.memory.history import TuningStats
from autosparse.tuning.session import TuningSession
from tests.tuner.fakes import FakeClock, FakeTrial


class FakeSession:
    """Fake session: work steps whose true prices differ from the estimates by a factor, then a race."""

    def __init__(self, clock: FakeClock, prices_s: list[float], *, misjudged: float, challenger_s: float) -> None:
        self.clock, self.prices_s, self.misjudged, self.challenger_s = clock, prices_s, misjudged, challenger_s
        self.total_runs: float | None = None
        self.gain, self.tuning_s, self.n_samples, self.incumbent_s = 0.15, 0.0, 0, 0.0
        self.context = self.search = self.incumbent = self.recalled = self.in_place = None
        self.is_released = False
        self.plan = planner.default_plan("fake")

    def keep_private(self, options: asp.Options) -> None:
        """Do nothing: a fake session stores nothing."""

    def steps(self) -> Iterator[Any]:
        for price_s in self.prices_s:
            yield Work(
                kind="build",
                price_s=price_s * self.misjudged,
                path_price_s=0.0,
                do=lambda price_s=price_s: self.clock.spend(price_s),
            )
        trial = FakeTrial(None, self.clock, self.challenger_s)
        for _ in range(10):
            seconds = yield Sample(trial=trial, price_s=0.0)
            self.n_samples += seconds is not None


def simulate(live_tuner: LiveTuner, session: FakeSession, *, n_runs: int, default_s: float) -> float:
    """Run `n_runs` products with tuning in between; return the simulated seconds."""
    clock, state = session.clock, live_tuner.state
    live_tuner.clock = clock
    state.next_look_ns = 0.0
    live_tuner.begin(session)  # type: ignore[arg-type]  # it has what a state asks for
    start_s = clock()
    for _ in range(n_runs):
        clock.spend(default_s)
        took_ns = int(default_s * 1e9)
        state.n_calls += 1
        state.product_ns += took_ns
        if state.product_ns >= state.next_look_ns:
            live_tuner.look(8, None, took_ns)
    return clock() - start_s


def make_live_tuner(**options: Any) -> LiveTuner:
    state = DispatchState(
        options=asp.get_options()._replace(**options), transposed=False, dtype=np.dtype("float32"),
        n_dense_cols=8, threads=0, flags=0,
    )  # fmt: skip
    return LiveTuner(state)


@given(
    cost_estimates=st.lists(st.floats(1e-4, 0.5), min_size=1, max_size=6),
    default_s=st.floats(1e-5, 1e-1),
    n_runs=st.integers(1, 400),
    overhead=st.sampled_from([0.0, 0.01, 0.04, 0.2]),
)
def test_background_tuning_never_exceeds_its_overhead_share(
    cost_estimates: list[float], default_s: float, n_runs: int, overhead: float
) -> None:
    session = FakeSession(FakeClock(), cost_estimates, misjudged=1.0, challenger_s=1.0)
    total_s = simulate(make_live_tuner(overhead=overhead), session, n_runs=n_runs, default_s=default_s)
    assert total_s <= (1 + overhead) * n_runs * default_s * (1 + 1e-6) + 1e-6


@given(misjudged=st.floats(0.2, 5.0), seed=st.integers(0, 99))
def test_misjudged_prices_cost_one_step_more_at_most(misjudged: float, seed: int) -> None:
    rng = random.Random(seed)
    cost_estimates = [rng.uniform(1e-3, 0.1) for _ in range(5)]
    session = FakeSession(FakeClock(), cost_estimates, misjudged=misjudged, challenger_s=1.0)
    total_s = simulate(make_live_tuner(), session, n_runs=300, default_s=0.01)
    assert total_s <= 1.04 * 3.0 + max(cost_estimates) + 1e-6


def test_given_enough_products_every_step_is_done() -> None:
    session = FakeSession(FakeClock(), [0.01, 0.02, 0.03], misjudged=1.0, challenger_s=1.0)
    live_tuner = make_live_tuner()
    simulate(live_tuner, session, n_runs=5000, default_s=0.001)
    assert session.n_samples == 10
    assert live_tuner.pending is None
    assert live_tuner.state.serving is None


@pytest.mark.parametrize("is_released", [True, False])
def test_a_race_in_the_incumbents_memory_ends_whatever_it_costs(is_released: bool) -> None:
    session = FakeSession(FakeClock(), [1e6], misjudged=1.0, challenger_s=1.0)
    session.is_released = is_released
    simulate(make_live_tuner(), session, n_runs=100, default_s=0.01)
    assert session.n_samples == (10 if is_released else 0)


def test_effort_budget_ends_unasked_tuning() -> None:
    session = FakeSession(FakeClock(), [0.01] * 100, misjudged=1.0, challenger_s=1.0)
    live_tuner = make_live_tuner(budget_s=0.05)
    simulate(live_tuner, session, n_runs=20000, default_s=0.01)
    assert live_tuner.tuning_s <= 0.05 + 1e-9


def test_announced_runs_start_tuning_early() -> None:
    session = FakeSession(FakeClock(), [0.01], misjudged=1.0, challenger_s=1.0)
    session.total_runs = 1e6
    live_tuner = make_live_tuner()
    simulate(live_tuner, session, n_runs=2, default_s=0.001)
    assert live_tuner.tuning_s == pytest.approx(0.01)


def test_error_in_a_step_ends_tuning_and_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AUTOSPARSE_STRICT", "0")
    session = FakeSession(FakeClock(), [0.001], misjudged=1.0, challenger_s=1.0)

    def fail() -> Iterator[Any]:
        yield Work(kind="build", price_s=0.0, path_price_s=0.0, do=lambda: {}["nothing"])

    session.steps = fail  # type: ignore[method-assign]
    live_tuner = make_live_tuner()
    with pytest.warns(asp.notices.FallbackWarning if hasattr(asp, "notices") else RuntimeWarning):
        simulate(live_tuner, session, n_runs=10, default_s=0.001)
    assert live_tuner.state.n_calls == 10
    assert live_tuner.failure is not None
    assert "KeyError" in live_tuner.failure


# -- comparing an incumbent with the default kernel ---------------------------------------------------------------


def in_service(clock: FakeClock, default_s: float, incumbent_s: float) -> tuple[TuningSession, FakeTrial]:
    """Return a finished session and its incumbent."""
    incumbent = FakeTrial(SuperSchedule(), clock, incumbent_s, packed=True)
    session = TuningSession(
        make_context=lambda: None, effort=asp.get_options().effort, stats=None, operand_bytes=0,
    )  # type: ignore[arg-type, return-value]  # fmt: skip
    session.context = lambda choice: FakeTrial(choice.schedule, clock, default_s)  # type: ignore[assignment]
    plan = Plan(choice=choice_of(SuperSchedule()), why="", default_s=default_s, measured_s=incumbent_s)
    session.plan, session.incumbent, session.is_finished = plan, incumbent, True  # type: ignore[assignment]
    return session, incumbent


def watch(default_s: float, incumbent_s: float, *, n_rounds: int) -> tuple[TuningSession, FakeTrial, list[int]]:
    """Drive a finished session for `n_rounds` comparisons; return the session, its incumbent and the pauses."""
    session, incumbent = in_service(FakeClock(), default_s, incumbent_s)
    pauses: list[int] = []
    steps = session.steps()
    answer = None
    while len(pauses) < n_rounds:
        try:
            step: Any = steps.send(answer)
        except StopIteration:
            break
        if isinstance(step, Pause):
            pauses.append(step.n_calls)
            answer = None
        else:
            answer = step.trial.true_s
    return session, incumbent, pauses


def test_incumbent_that_stays_faster_is_asked_ever_more_rarely() -> None:
    session, incumbent, pauses = watch(1.0, 0.8, n_rounds=5)
    assert session.incumbent is incumbent
    assert incumbent.packed
    assert pauses == sorted(pauses)
    assert pauses[-1] >= 64 * pauses[0]


def test_incumbent_that_became_slower_is_dropped() -> None:
    session, incumbent, _ = watch(1.0, 1.3, n_rounds=5)
    assert session.incumbent is None
    assert not incumbent.packed
    assert session.current_plan().is_default
    assert "stopped being faster" in session.current_plan().why


@pytest.mark.parametrize("incumbent_s", [3e-6, 8e-6])
def test_an_incumbent_is_compared_as_products_that_follow_each_other(
    incumbent_s: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Check that samples of the incumbent are taken from consecutive products.

    While the default kernel computes on one thread, the other threads fall asleep, and the incumbent's next products
    are slow.
    """
    default_s, late_s, wakes_s = 6.5e-6, 9e-6, 6e-5
    monkeypatch.setattr(live, "ServedTrial", FakeTrial)
    monkeypatch.setattr(live, "served_of", lambda trial: None if trial.schedule is None else trial)
    live_tuner = make_live_tuner()
    session, incumbent = in_service(live_tuner.clock, default_s, incumbent_s)  # type: ignore[arg-type]
    live_tuner.begin(session)
    state, served_s, n_default = live_tuner.state, 0.0, 0
    state.serving, state.next_look_ns = incumbent, 0.0  # type: ignore[assignment]
    for _ in range(50_000):
        serving = state.serving
        served_s = served_s + incumbent_s if serving is incumbent else 0.0
        took_s = default_s if serving is None else late_s if served_s < wakes_s else incumbent_s
        n_default += serving is None
        state.count(round(took_s * 1e9), is_tuned=serving is not None)
        if state.product_ns >= state.next_look_ns:
            live_tuner.look(8, serving, round(took_s * 1e9))
    assert n_default > 100
    assert session.incumbent is (incumbent if incumbent_s < default_s else None)
    assert n_default < 1_000 or incumbent_s > default_s


# -- statistics kept between processes ----------------------------------------------------------------------------


@pytest.fixture
def store(tmp_path: Path) -> Iterator[cache.Store]:
    with asp.options(cache_dir=tmp_path / "cache"):
        yield cache.open_store()


def test_prices_pass_from_process_to_process(store: cache.Store) -> None:
    stats = TuningStats(store, "here")
    stats.cost_estimates.observe("compile", 0.77)
    stats.cost_estimates.observe_gain("matmul|32", 0.4)
    stats.flush_costs()
    later = TuningStats(store, "here")
    assert later.cost_estimates.price_s("compile") == pytest.approx(0.77)
    assert later.cost_estimates.gains["matmul|32"].value == pytest.approx(0.4)
