"""Tests of the race between kernels, with simulated times."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from autosparse.tuner.search.race import Race, RaceRule, timed_s
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.tuner.fakes import FakeClock, Noise


def run_race(times_s: Sequence[float], *, seed: int, level: float, rule: RaceRule | None = None) -> Race:
    race, noise = Race(len(times_s), rule or RaceRule()), Noise(seed, level=level)
    for turn in race:
        race.add(turn, times_s[turn] * noise.factor())
    return race


@given(
    times=st.lists(st.floats(0.3, 3.0), min_size=1, max_size=6),
    seed=st.integers(0, 10**6),
    level=st.sampled_from([0.0, 0.02, 0.1]),
)
def test_race_never_crowns_an_entrant_much_slower_than_the_default(times: list[float], seed: int, level: float) -> None:
    race = run_race([1.0, *times], seed=seed, level=level)
    assert [1.0, *times][race.winner()] <= 1.0 + level
    assert race.n_rounds <= race.rule.max_rounds


@given(others=st.lists(st.floats(0.85, 3.0), max_size=5), best=st.floats(0.2, 0.7), seed=st.integers(0, 10**6))
@settings(max_examples=200)
def test_race_finds_a_clear_winner_under_noise(others: list[float], best: float, seed: int) -> None:
    """Check that it wins unless outliers, 5 % of all runs, took a quarter of its rounds."""
    times = [1.0, *others, best]
    race, last = run_race(times, seed=seed, level=0.03), len(times) - 1
    won = [mine < holder for mine, holder in zip(race.samples_s[last], race.samples_s[0], strict=False)]
    assert race.winner() == last or sum(won) < race.rule.majority * len(won)


def test_outliers_rarely_hide_a_clear_winner() -> None:
    found = [run_race([1.0, 1.0, 1.0, 1.0, 0.5], seed=seed, level=0.03).winner() for seed in range(300)]
    assert found.count(4) >= 297


def test_race_on_a_machine_too_busy_to_tell_keeps_the_default() -> None:
    crowned = [run_race([1.0, 1.03], seed=seed, level=1.0).winner() for seed in range(300)]
    assert sum(crowned) < 24  # 3 % are invisible in this noise, so the challenger wins by luck only


def test_race_of_equals_keeps_the_default() -> None:
    crowned = [run_race([1.0, 1.0, 1.0, 1.0], seed=seed, level=0.02).winner() for seed in range(200)]
    assert sum(one != 0 for one in crowned) <= 4


def test_race_survives_drift_that_hits_everyone() -> None:
    race, speed = Race(3), 1.0
    for turn in race:
        speed *= 1.1  # the machine gets slower with every sample
        race.add(turn, [1.0, 1.4, 0.7][turn] * speed)
    assert race.winner() == 2


def test_losers_leave_early() -> None:
    race = run_race([1.0, 5.0, 0.8], seed=1, level=0.01)
    assert len(race.samples_s[1]) <= RaceRule().first_cut
    assert race.winner() == 2


@pytest.mark.parametrize(("cut_short", "last", "winner"), [(3, 0.9, 1), (3, 1.01, 0), (0, 0.9, 0), (4, 0.9, 0)])
def test_a_race_that_a_budget_ends_counts_where_every_round_was_won(cut_short: int, last: float, winner: int) -> None:
    race = Race(2, RaceRule(cut_short=cut_short))
    for mine_s, turn in zip((0.9, 0.9, 0.9, 0.9, last, last), race, strict=False):
        race.add(turn, mine_s if turn else 1.0)
    assert race.winner() == winner


def test_disqualified_entrant_is_not_asked_again() -> None:
    race = Race(3)
    turns = []
    for turn in race:
        turns.append(turn)
        race.add(turn, (1.0, None, 0.5)[turn])
    assert turns[:5] == [0, 1, 2, 2, 0]
    assert turns.count(1) == 1
    assert race.winner() == 2


def test_a_race_ends_when_its_holder_fails() -> None:
    race = Race(2)
    for turn in race:
        race.add(turn, None if turn == 0 and race.n_rounds == 1 else 1.0)
    assert [len(race.samples_s[at]) for at in range(2)] == [1, 2]


def test_short_runs_are_repeated_and_averaged() -> None:
    clock = FakeClock()
    assert timed_s(lambda: clock.spend(1e-5), clock=clock) == pytest.approx(1e-5)
    n_runs = 0

    def run() -> None:
        nonlocal n_runs
        n_runs += 1
        clock.spend(0.5)

    assert timed_s(run, clock=clock) == pytest.approx(0.5)
    assert n_runs == 1  # a long product is not repeated for the resolution of the clock


def test_a_run_whose_thread_waited_for_its_core_does_not_count() -> None:
    clock, stalls = FakeClock(), iter([8e-3])
    seconds = timed_s(lambda: clock.spend(next(stalls, 2e-5)), clock=clock, usual_s=1.8e-5)
    assert seconds == pytest.approx(2e-5)
    assert timed_s(lambda: clock.spend(8e-3), clock=clock, usual_s=7e-3) == pytest.approx(8e-3)
