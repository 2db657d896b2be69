"""Tests of the last race: an incumbent stays only where it is faster for every kind of result memory."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from autosparse.tuner.search.race import LAST_ROUNDS, MIN_ROUNDS, LastRace, last_race

from tests.tuner.fakes import FakeClock


def spending(clock: FakeClock, *seconds: float):
    """Return a product that takes the given seconds in turn."""
    turns = itertools.cycle(seconds)
    return lambda turn: clock.spend(next(turns))


@pytest.mark.parametrize(
    ("fresh", "out", "is_won"),
    [(0.8, 0.8, True), (1.3, 0.6, False), (0.6, 1.3, False), (0.99, 0.9, True), (0.98, 0.98, False), (1.0, 1.0, False)],
)
def test_an_incumbent_stays_where_it_is_faster_in_both_ways(fresh: float, out: float, *, is_won: bool) -> None:
    clock = FakeClock()
    ways = [(spending(clock, 0.01), spending(clock, 0.01 * ratio)) for ratio in (fresh, out)]
    (race,) = last_race(ways, clock=clock, limit_s=10)
    assert race.is_won is is_won
    assert race.ratio == pytest.approx((fresh * out) ** 0.5, rel=0.02)


def test_one_disturbed_product_decides_nothing_and_time_is_kept() -> None:
    clock = FakeClock()
    (race,) = last_race([(spending(clock, 0.01), spending(clock, 0.05, *[0.008] * 20))], clock=clock, limit_s=10)
    assert race.is_won
    for limit_s, n_rounds in ((15.0, LAST_ROUNDS[0]), (0.5, MIN_ROUNDS)):
        clock = FakeClock()
        last_race([(spending(clock, 1.0), spending(clock, 1.0))], clock=clock, limit_s=limit_s)
        assert clock() == pytest.approx(4.0 * n_rounds, rel=0.1)


@pytest.mark.parametrize(("slow_rounds", "is_won"), [(0, True), (3, True), (4, False)])
def test_an_incumbent_that_loses_many_rounds_does_not_stay_for_its_median(slow_rounds: int, *, is_won: bool) -> None:
    clock, most = FakeClock(), LAST_ROUNDS[1]
    rounds = [0.012] * slow_rounds + [0.009] * (most - slow_rounds)
    incumbent = spending(clock, *(seconds for one in rounds for seconds in (one, one)))  # one product to warm up
    (race,) = last_race([(spending(clock, 0.01), incumbent)], clock=clock, limit_s=10)
    assert race.ratio == pytest.approx(0.9, rel=0.02)
    assert race.won == pytest.approx(1.0 - slow_rounds / most)
    assert race.is_won is is_won


@pytest.mark.parametrize(("n_disturbed", "is_won"), [(3, True), (4, False)])
def test_a_disturbance_decides_one_sample_not_a_round(n_disturbed: int, *, is_won: bool) -> None:
    """Disturb `n_disturbed` rounds of one way, and as many other rounds of the other way, by 50 products each."""
    clock, most = FakeClock(), LAST_ROUNDS[1]
    disturbed = range(n_disturbed), range(n_disturbed, 2 * n_disturbed)
    rounds = [[5.0 if at in slow else 0.05 for at in range(most)] for slow in disturbed]
    ways = [(spending(clock, 0.1), spending(clock, *np.repeat(each, 2).tolist())) for each in rounds]
    (race,) = last_race(ways, clock=clock, limit_s=1000)
    assert race.ratios == pytest.approx((0.5, 0.5), rel=0.02)
    assert race.won == pytest.approx(1.0 - n_disturbed / most)
    assert race.is_won is is_won


def test_products_of_a_round_are_told_its_turn() -> None:
    """Check that products of a round get the same turn, which selects the memory of their operands."""
    clock, told = FakeClock(), ([], [])
    ways = [[lambda turn, at=at: told[at].append(turn) or clock.spend(0.01) for at in range(2)]]
    last_race(ways, clock=clock, limit_s=10)
    assert [sorted(set(one)) for one in told] == [list(range(LAST_ROUNDS[1]))] * 2
    assert all(one == sorted(one) for one in told)


def test_without_any_way_nothing_is_won() -> None:
    assert last_race([], clock=FakeClock(), limit_s=1) == []
    assert not LastRace(()).is_won
