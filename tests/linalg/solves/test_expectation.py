"""Tests of tuning paid for by a solver's expected products: scripted residuals, a scripted clock, known prices."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from autosparse.tuner.search.trial import Sample, Work
from hypothesis import given
from hypothesis import strategies as st

import autosparse as asp
from autosparse.dispatch import expectations, first_look
from autosparse.dispatch.expectations import Expected
from autosparse.dispatch.state import FOREVER_NS, DispatchState
from autosparse.linalg.solves.convergence import Convergence
from autosparse.linalg.solves.expectation import ProductCounts
from autosparse.linalg.solves.solve import COLD_ITERATIONS
from autosparse.linalg.solves.workspace import Begun, states_of
from autosparse.tuning import amortization, planner
from autosparse.tuning.amortization import Outlook, TuningAccount
from autosparse.tuning.live import LiveTuner
from tests.linalg.solves import scripts
from tests.tuner.fakes import FakeClock, FakeTrial

PRODUCT_S = 1e-3
COLD = 20.0
"""Factor by which iterations take longer while the pages of vectors and the caches are cold."""


class Session:
    """Tuning session with steps of given prices, followed by a race against a slower challenger.

    With `in_advance`, its steps need no compiler and may be bought in advance.
    """

    def __init__(self, clock: FakeClock, prices_s: list[float], *, in_advance: bool, gain: float) -> None:
        self.clock, self.prices_s, self.in_advance, self.gain = clock, prices_s, in_advance, gain
        self.total_runs: float | None = None
        self.context = self.search = self.incumbent = self.in_place = self.recalled = None
        self.tuning_s, self.incumbent_s, self.is_released = 0.0, 0.0, False
        self.plan = planner.default_plan("fake")

    def keep_private(self, options: asp.Options) -> None:
        """Do nothing: no result is kept."""

    def steps(self) -> Iterator[Any]:
        for at, price_s in enumerate(self.prices_s):
            path_s = sum(self.prices_s[at:])
            do = lambda price_s=price_s: self.clock.spend(price_s)  # noqa: E731
            yield Work(kind="build", price_s=price_s, path_price_s=path_s, do=do, in_advance=self.in_advance)
        trial = FakeTrial(None, self.clock, 1.0)
        for _ in range(10):
            yield Sample(trial=trial, price_s=0.0)


@dataclass
class Simulation:
    """Solver whose products take `PRODUCT_S` seconds each, and `vectors_s` beside each, with a tuner.

    The first `n_cold` iterations of the process take `COLD` times as long.
    """

    prices_s: list[float]
    in_advance: bool = True
    gain: float = 0.2
    vectors_s: float = 0.0
    n_cold: int = 0
    clock: FakeClock = field(default_factory=FakeClock)
    bought_at: list[int] = field(default_factory=list)  # numbers of products after which a step of tuning ran

    def __post_init__(self) -> None:
        options = asp.get_options()._replace(overhead=0.04, effort=asp.Effort.MEASURE)
        self.state = state = DispatchState(
            options=options, transposed=False, dtype=np.dtype("float64"), n_dense_cols=1, threads=0, flags=0,
            next_look_ns=0.0,
        )  # fmt: skip
        self.tuner = LiveTuner(state, clock=self.clock)
        self.tuner.begin(Session(self.clock, self.prices_s, in_advance=self.in_advance, gain=self.gain))  # type: ignore[arg-type]
        state.live_tuner = self.tuner
        self.operand: Any = OneProblem(state)

    @property
    def slowness(self) -> float:
        """Factor by which the next iteration takes longer than a later one."""
        return COLD if self.state.n_calls < self.n_cold else 1.0

    def product(self) -> None:
        """Run one product, and tuning after it."""
        state, before_s = self.state, self.tuner.tuning_s
        took_s = PRODUCT_S * self.slowness
        self.clock.spend(took_s)
        state.count(int(took_s * 1e9), is_tuned=False)
        if state.product_ns >= state.next_look_ns:
            self.tuner.look(1, None, int(took_s * 1e9))
        if self.tuner.tuning_s > before_s + 1e-9:
            self.bought_at.append(state.n_calls)

    def solve(self, residuals: list[float], *, limit: float = 1e6, tells: bool = True) -> float:
        """Return the seconds that a solve with these residuals takes."""
        begun_s = self.clock()
        convergence = Convergence(target=scripts.TARGET, limit=limit)
        begun = Begun(states_of(self.operand), clock_ns=lambda: round(self.clock() * 1e9))
        counts = ProductCounts(self.operand, begun)
        due = COLD_ITERATIONS
        for n, best, now in scripts.reports(residuals):
            if tells and n >= due:
                counts.tell(n, convergence.left(n, best, now))
                due = max(n + 1, int(n * 1.25))
            if n < len(residuals) - 1:
                self.clock.spend(self.vectors_s * self.slowness)
                self.product()
        counts.end()
        begun.end(states_of(self.operand))
        return self.clock() - begun_s


class OneProblem:
    """Operand with one problem."""

    def __init__(self, state: DispatchState) -> None:
        self.dispatcher = self
        self.hot = {(1, False): state}
        self.solver_memory = None


@pytest.mark.parametrize("name", scripts.ALL)
@pytest.mark.parametrize("in_advance", [True, False])
@given(
    length=st.integers(1, 1500),
    prices_s=st.lists(st.floats(1e-4, 0.3), min_size=1, max_size=6),
    gain=st.floats(0.05, 0.6),
    vectors_s=st.sampled_from([0.0, PRODUCT_S, 10 * PRODUCT_S]),
)
def test_a_solve_with_tuning_takes_no_more_than_1_05_of_one_without(
    name: str, in_advance: bool, length: int, prices_s: list[float], gain: float, vectors_s: float
) -> None:
    residuals = scripts.ALL[name](length)
    simulation = Simulation(prices_s, in_advance=in_advance, gain=gain, vectors_s=vectors_s)
    took_s = simulation.solve(residuals, limit=len(residuals) - 1)
    assert took_s <= 1.05 * (PRODUCT_S + vectors_s) * (len(residuals) - 1) + 1e-6


@pytest.mark.parametrize("n_cold", [1, 2])
def test_cold_iterations_do_not_say_how_long_the_later_ones_take(n_cold: int) -> None:
    for length, price_s, vectors_s in itertools.product((30, 100, 300, 600), (0.002, 0.01, 0.03, 0.1), (0, 1e-3, 1e-2)):
        simulation, total_s = Simulation([price_s], gain=0.5, vectors_s=vectors_s, n_cold=n_cold), 0.0
        n, iteration_s = len(scripts.steady(length)) - 1, PRODUCT_S + vectors_s
        for done in (1, 2, 3):
            total_s += simulation.solve(scripts.steady(length), limit=length)
            untuned_s = (done * n + min(n, n_cold) * (COLD - 1.0)) * iteration_s
            assert total_s <= 1.05 * untuned_s + 1e-6, (length, price_s, vectors_s, done)


def test_tuning_begins_earlier_where_a_solve_takes_time_beside_its_products() -> None:
    residuals, prices_s = scripts.FALLING[next(iter(scripts.FALLING))](600), [0.002, 0.004, 0.006]
    short, long = (Simulation(prices_s, in_advance=False, vectors_s=times * PRODUCT_S) for times in (0, 2))
    short.solve(residuals)
    long.solve(residuals)
    assert long.bought_at[:3] < short.bought_at[:3]


@pytest.mark.parametrize("name", scripts.FALLING)
def test_a_long_solve_tunes_before_its_middle_and_earlier_than_without_prediction(name: str) -> None:
    residuals, prices_s = scripts.FALLING[name](600), [0.002, 0.004, 0.006]
    told, untold = Simulation(prices_s, in_advance=False), Simulation(prices_s, in_advance=False)
    told.solve(residuals)
    untold.solve(residuals, tells=False)
    assert len(told.bought_at) >= 3
    assert told.bought_at[2] <= 0.5 * 600
    assert len(untold.bought_at) < 3 or told.bought_at[2] <= untold.bought_at[2]


@pytest.mark.parametrize("name", ["steady", "superlinear"])
def test_no_step_begins_that_what_is_left_would_not_pay_for(name: str) -> None:
    """A step that costs 40 products must not begin where the rest of the solve would save less than it costs."""
    simulation = Simulation([0.04], gain=0.2)
    simulation.solve(scripts.ALL[name](990))
    assert all(990 - at >= 0.04 / (0.2 * PRODUCT_S) * 0.8 for at in simulation.bought_at)


def test_a_quick_solve_is_left_alone() -> None:
    simulation = Simulation([0.001], gain=0.2)
    simulation.solve(scripts.steady(12))
    assert not simulation.bought_at


def test_many_short_solves_of_one_matrix_pay_for_tuning_together() -> None:
    simulation = Simulation([0.01, 0.02], gain=0.2)
    total_s = sum(simulation.solve(scripts.steady(20)) for _ in range(200))
    assert len(simulation.bought_at) >= 2
    assert total_s <= 1.05 * 200 * 20 * PRODUCT_S


@given(
    length=st.integers(1, 60), n_solves=st.integers(1, 100), gain=st.floats(0.05, 0.6), tells=st.booleans(),
    prices_s=st.lists(st.floats(1e-4, 0.3), min_size=1, max_size=6),
    vectors_s=st.sampled_from([0.0, PRODUCT_S, 10 * PRODUCT_S]),
)  # fmt: skip
def test_at_no_length_does_a_series_of_solves_take_more_than_1_05_of_one_without_tuning(
    length: int, n_solves: int, prices_s: list[float], gain: float, vectors_s: float, tells: bool
) -> None:
    simulation, total_s = Simulation(prices_s, gain=gain, vectors_s=vectors_s), 0.0
    for done in range(1, n_solves + 1):
        total_s += simulation.solve(scripts.steady(length), limit=length - 1, tells=tells or done == 1)
        assert total_s <= 1.05 * done * (len(scripts.steady(length)) - 1) * (PRODUCT_S + vectors_s) + 1e-6


def test_a_diverging_solve_starts_no_tuning() -> None:
    told, untold = Simulation([0.01], in_advance=False), Simulation([0.01], in_advance=False)
    told.solve(scripts.diverging(400))
    untold.solve(scripts.diverging(400), tells=False)
    assert not told.bought_at
    assert untold.bought_at


def test_the_end_of_a_solve_ends_its_expectations() -> None:
    simulation = Simulation([10.0])
    simulation.solve(scripts.steady(300))
    assert simulation.state.expected is None


def test_disabled_tuning_stays_disabled() -> None:
    simulation = Simulation([1e-4])
    simulation.state.next_look_ns = float("inf")
    expectations.tell(simulation.state, Expected(n_calls=1e6, n_certain=1e6))
    assert simulation.state.next_look_ns == float("inf")
    simulation.state.next_look_ns = FOREVER_NS
    expectations.tell(simulation.state, Expected(n_calls=1e9, n_certain=1e9))
    assert simulation.state.next_look_ns == FOREVER_NS


def test_the_modules_of_tuning_are_loaded_once_enough_is_certain(monkeypatch: pytest.MonkeyPatch) -> None:
    # product time at which they are loaded without expectations
    monkeypatch.setattr(first_look.states, "tuning_look_ns", lambda *problem: 0.75e9)
    state = Simulation([1.0]).state
    state.count(int(5e-3 * 1e9), is_tuned=False)
    assert first_look._tuning_look_ns(state) > state.product_ns
    state.expected = Expected(n_calls=100.0, n_certain=100.0)  # half a second of products, 4 % of which are 20 ms
    assert first_look._tuning_look_ns(state) > state.product_ns
    state.expected = Expected(n_calls=1000.0, n_certain=1000.0)
    assert first_look._tuning_look_ns(state) == 0.0


expected = st.builds(Expected, n_calls=st.floats(0, 1e7), n_certain=st.floats(0, 1e7))


@given(expected, st.floats(1.0, 100.0), st.floats(1e-6, 10.0), st.integers(1, 10**5))
def test_decision_is_monotonic_in_expected_products(
    known: Expected, factor: float, price_s: float, n_calls: int
) -> None:
    account = TuningAccount(n_calls=n_calls, product_s=n_calls * PRODUCT_S)
    more = Expected(n_calls=known.n_calls * factor, n_certain=known.n_certain * factor)
    outlooks = [Outlook(gain=0.2, default_s=PRODUCT_S, expected=one) for one in (known, more)]
    now, later = (amortization.weigh(price_s, account=account, outlook=one).pays for one in outlooks)
    assert later or not now
