"""Tests of the timing code with a clock that advances only while a contender runs."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from peerlib.streams import Stream, side_by_side
from peerlib.timing import ALIKE, PAUSE_S, Protocol, Timing, calls_per_sample, settle, take_turns, timed_calls, warm_up


class FakeClock:
    """Clock whose seconds pass only when a job runs."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self.order: list[str] = []

    def __call__(self) -> float:
        return self.now_s

    def job(self, name: str, cost_s: float) -> Callable[[], str]:
        """Return a contender whose every call takes `cost_s`."""

        def run() -> str:
            self.now_s += cost_s
            self.order.append(name)
            return name

        return run


costs_s = st.floats(1e-6, 0.1)


@given(st.lists(costs_s, min_size=1, max_size=5), st.integers(0, 5))
@settings(max_examples=30, deadline=None)
def test_take_turns_finds_each_cost_and_runs_everyone_equally_often(given_s: list[float], seed: int) -> None:
    clock = FakeClock()
    jobs = {str(i): clock.job(str(i), cost_s) for i, cost_s in enumerate(given_s)}
    found = take_turns(jobs, Protocol(rounds=4, sample_s=1e-4, warm_s=1e-5, seed=seed), clock=clock)
    for i, cost_s in enumerate(given_s):
        assert found[str(i)].median_s == pytest.approx(cost_s, rel=1e-6)
        assert found[str(i)].n_calls_per_sample * cost_s >= 1e-4 * (1 - 1e-6)
    assert len({timing.n_samples for timing in found.values()}) == 1


@given(st.lists(st.floats(1e-7, 1.0), min_size=1, max_size=6))
def test_contenders_of_about_one_speed_are_called_equally_often(costs_s: list[float]) -> None:
    found = calls_per_sample({str(i): cost_s for i, cost_s in enumerate(costs_s)}, 1e-3)
    most = max(found.values())
    for i, cost_s in enumerate(costs_s):
        n = found[str(i)]
        assert n * cost_s >= 1e-3 * (1 - 1e-6)
        assert n == most or ALIKE * n < most


def test_take_turns_interleaves() -> None:
    clock = FakeClock()
    jobs = {name: clock.job(name, 0.01) for name in "ab"}
    take_turns(jobs, Protocol(rounds=6, sample_s=0.01, warm_s=1e-3), clock=clock)
    halves = clock.order[: len(clock.order) // 2], clock.order[len(clock.order) // 2 :]
    assert all(set(half) == {"a", "b"} for half in halves)


@pytest.mark.parametrize("busy_s", [0.0, 0.007, 1.0])
def test_settle_sleeps_while_workers_spin_and_at_most_as_long_as_allowed(busy_s: float) -> None:
    clock = FakeClock()

    def sleep(pause_s: float) -> None:
        clock.now_s += pause_s

    settle(0.0, cpu=clock, sleep=sleep)
    assert clock() == 0.0
    settle(0.05, cpu=lambda: min(clock(), busy_s), sleep=sleep)
    assert clock() == pytest.approx(min(busy_s + PAUSE_S, 0.05), abs=PAUSE_S)


def test_take_turns_cuts_rounds_of_slow_contenders_to_the_limit() -> None:
    clock = FakeClock()
    found = take_turns({"slow": clock.job("slow", 2.0)}, Protocol(rounds=50, most_s=10.0, least_rounds=2), clock=clock)
    assert found["slow"].n_samples == 2


def test_one_outlier_does_not_move_the_median() -> None:
    timing = Timing.of([1.0, 1.0, 1.0, 1.0, 500.0], 1)
    assert (timing.median_s, timing.low_s, timing.high_s) == (1.0, 1.0, 1.0)


def test_timed_calls_is_per_call_and_warm_up_calls_at_least_once() -> None:
    clock = FakeClock()
    assert timed_calls(clock.job("a", 0.5), 4, clock) == pytest.approx(0.5)
    assert warm_up(clock.job("a", 3.0), 0.0, clock) == pytest.approx(3.0)


@given(costs_s, costs_s, st.integers(1, 3000), st.booleans())
@settings(max_examples=30, deadline=None)
def test_side_by_side_measures_all_calls_when_time_allows(a_s: float, b_s: float, n: int, second_leads: bool) -> None:
    clock = FakeClock()
    totals = side_by_side(
        Stream(clock.job("a", a_s)),
        Stream(clock.job("b", b_s)),
        n_calls=n,
        most_s=1e9,
        second_leads=second_leads,
        clock=clock,
    )
    assert totals.n_measured == n == clock.order.count("a") == clock.order.count("b")
    assert clock.order[0] == ("b" if second_leads else "a")
    assert totals.ratio(n) == pytest.approx(a_s / b_s, rel=1e-6)


def test_side_by_side_goes_on_at_the_last_pace() -> None:
    clock = FakeClock()
    slow_start = iter([5.0] + [0.1] * 10_000)
    b = clock.job("b", 0.2)

    def a() -> None:
        clock.now_s += next(slow_start)

    totals = side_by_side(Stream(a), Stream(b), n_calls=1000, most_s=8.0, clock=clock)
    assert totals.n_measured < 1000
    assert totals.ratio(1000) == pytest.approx((5.0 + 0.1 * 999) / (0.2 * 1000), rel=1e-6)
