"""Tests that a composite serves only where it beats the default kernel and the best single format in the last race."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from autosparse.tuner.hybrid.schedules import runtime
from autosparse.tuner.search.outcome import plan_of

from autosparse.config import Effort
from autosparse.core.composite import REST, Composite, Part, Rows, Schedule
from autosparse.tuning.confirmation import confirm
from tests.tuner.fakes import FakeClock, FakeFactory, FakeTrial, tune
from tests.tuner.test_tuner_search import make_problem, make_search

SINGLE = runtime("matmul", "degree")
COMPOSITE = Composite(parts=(Part(Rows(20), runtime("matmul")), Part(REST, SINGLE)))
DEFAULT_S = 0.01


def searched(
    in_search: dict[Any, float], *, room: int = 2, found: tuple[Schedule, ...] = (SINGLE, COMPOSITE),
    always: tuple[Any, ...] = (), budget_s: float = 1e6,
) -> tuple[Any, Any, FakeClock]:  # fmt: skip
    """Return (search, plan, clock) after a search with the given times relative to the default kernel; others: 2."""
    clock = FakeClock()
    factory = FakeFactory(clock, lambda schedule: DEFAULT_S * (1.0 if schedule is None else in_search.get(schedule, 2)))

    def has_room(_: FakeTrial) -> bool:
        return sum(one.packed for one in factory.made) < room

    def change(trial: FakeTrial) -> None:
        trial.room, trial.packed_bytes = has_room, 0 if trial.schedule is None else 1

    factory.change = change
    search = make_search(factory, make_problem(), effort=Effort.MEASURE)
    search.always = (*found, *always)
    return search, tune(search, runner=factory.run_of, budget_s=budget_s, clock=clock), clock


def confirmed(context: Any, search: Any, *, limit_s: float, clock: FakeClock) -> Any:
    """Return the plan after the final race."""
    confirm(context, search, limit_s=limit_s, clock=clock)
    return plan_of(search, tune_s=0.0)


def served_by(clock: FakeClock, fresh: dict[Any, float], named: dict[Any, float]) -> Any:
    """Return a context whose products take the given times, by schedule and by kind of result memory."""

    def served(trial: FakeTrial, *, is_fresh: bool) -> Callable[[], object]:
        assert trial.ready
        ratios = fresh if is_fresh else named
        return lambda turn: clock.spend(DEFAULT_S * (1.0 if trial.schedule is None else ratios[trial.schedule]))

    return SimpleNamespace(served=served)


@pytest.mark.parametrize(
    ("fresh", "named", "chosen"),
    [
        ((0.7, 0.8), (0.7, 0.8), COMPOSITE),
        ((0.79, 0.8), (0.79, 0.8), SINGLE),  # a tie
        ((0.9, 0.8), (0.9, 0.8), SINGLE),  # slower than in the search
        ((0.6, 0.8), (0.9, 0.8), SINGLE),  # slower in one kind of result memory
        ((1.1, 0.9), (1.1, 0.9), SINGLE),
        ((0.9, 1.1), (0.9, 1.1), COMPOSITE),
        ((1.1, 1.1), (1.1, 1.1), None),
    ],
)
@pytest.mark.parametrize("in_search", [(0.5, 0.8), (0.9, 0.8)])
def test_composite_must_win_the_last_race(in_search, fresh, named, chosen):
    order = (COMPOSITE, SINGLE)
    search, found, clock = searched(dict(zip(order, in_search, strict=True)))
    assert found.schedule == min(order, key=lambda one: in_search[order.index(one)])
    context = served_by(clock, *(dict(zip(order, times, strict=True)) for times in (fresh, named)))
    plan = confirmed(context, search, limit_s=1.0, clock=clock)
    if found.schedule == SINGLE and chosen == COMPOSITE:
        chosen = SINGLE if fresh[1] <= 0.96 else None  # it was beaten before, so it does not return
    assert plan.schedule == chosen
    assert search.incumbent.schedule == chosen
    assert all(one.packed == (one is search.incumbent) for one in search.trials)


@pytest.mark.parametrize(("composite", "chosen"), [(0.7, COMPOSITE), (0.79, SINGLE)])
def test_without_room_for_both_the_races_of_the_search_decide(composite, chosen):
    times = {COMPOSITE: composite, SINGLE: 0.8}
    search, _, clock = searched(times, room=1)
    assert confirmed(served_by(clock, times, times), search, limit_s=1.0, clock=clock).schedule == chosen


OTHER = runtime("matmul", "first")
ANOTHER = Composite(parts=(Part(Rows(9), runtime("matmul")), Part(REST, runtime("matmul", "first"))))


@pytest.mark.parametrize(
    ("other", "limit_s", "chosen"), [(0.7, 10.0, OTHER), (0.9, 10.0, SINGLE), (0.7, 0.1, SINGLE), (1.1, 10.0, SINGLE)]
)
def test_a_close_loser_may_win_where_products_are_run(other, limit_s, chosen):
    """Check that a close loser may win the final race, where there is time for it."""
    search, found, clock = searched({SINGLE: 0.8, OTHER: 0.82}, found=(), always=(SINGLE, OTHER))
    assert found.schedule == SINGLE
    times = {SINGLE: 0.8, OTHER: other}
    plan = confirmed(served_by(clock, times, times), search, limit_s=limit_s, clock=clock)
    assert plan.schedule == chosen
    assert all(one.packed == (one is search.incumbent) for one in search.trials)


@pytest.mark.parametrize(
    ("composite", "limit_s", "chosen"),
    [(0.7, 10.0, COMPOSITE), (0.79, 10.0, SINGLE), (0.9, 10.0, SINGLE), (1.1, 10.0, SINGLE), (0.7, 0.1, SINGLE)],
)
def test_a_composite_that_lost_by_little_may_win_where_products_are_run(composite, limit_s, chosen):
    """Check that a composite that lost by little may win the final race, by more than a tie and where there is time."""
    search, found, clock = searched({SINGLE: 0.8, COMPOSITE: 0.82})
    assert found.schedule == SINGLE
    times = {SINGLE: 0.8, COMPOSITE: composite}
    plan = confirmed(served_by(clock, times, times), search, limit_s=limit_s, clock=clock)
    assert plan.schedule == chosen
    assert all(one.packed == (one is search.incumbent) for one in search.trials)


@pytest.mark.parametrize(
    ("second", "limit_s", "chosen"), [(0.6, 10.0, ANOTHER), (0.75, 10.0, COMPOSITE), (0.6, 0.1, COMPOSITE)]
)
def test_a_composite_that_lost_to_another_by_little_races_as_well(second, limit_s, chosen):
    """Check that two close composites both enter the final race, and the faster one serves."""
    in_search = {SINGLE: 0.9, COMPOSITE: 0.7, ANOTHER: 0.71}
    search, found, clock = searched(in_search, room=3, found=(COMPOSITE, ANOTHER), always=(SINGLE,))
    assert found.schedule == COMPOSITE
    times = {SINGLE: 0.9, COMPOSITE: 0.7, ANOTHER: second}
    plan = confirmed(served_by(clock, times, times), search, limit_s=limit_s, clock=clock)
    assert plan.schedule == chosen
    assert all(one.packed == (one is search.incumbent) for one in search.trials)


@pytest.mark.parametrize("fresh", [0.6, 0.9])
def test_the_recorded_ratio_is_the_worst_of_all_call_variants(fresh):
    search, _, clock = searched({SINGLE: 0.8}, found=(), always=(SINGLE,))
    plan = confirmed(served_by(clock, {SINGLE: fresh}, {SINGLE: 0.7}), search, limit_s=10.0, clock=clock)
    assert plan.measured_s / plan.default_s == pytest.approx(max(fresh, 0.7))


@pytest.mark.parametrize(("other", "chosen"), [(0.8, OTHER), (0.98, None)])
def test_memory_freed_by_a_loser_admits_a_candidate(other, chosen):
    search, found, clock = searched({SINGLE: 0.8, OTHER: 0.82}, room=1, found=(), always=(SINGLE, OTHER))
    assert found.schedule == SINGLE
    times = {SINGLE: 1.1, OTHER: other}
    plan = confirmed(served_by(clock, times, times), search, limit_s=10.0, clock=clock)
    assert plan.schedule == chosen
    assert all(one.packed == (one is search.incumbent) for one in search.trials)


def test_entrants_that_always_race_displace_no_candidates():
    """Check that composites and formats that need no compiler race first, and take no places of other candidates."""
    numbers = []
    for found, always in (((), ()), ((COMPOSITE,), (SINGLE, OTHER))):
        search, _, _ = searched({}, found=found, always=always)
        tried = [one.schedule for one in search.trials]
        assert tried[: len(always) + len(found)] == [*found, *always]
        numbers.append(len(tried) - len(always) - len(found))
    assert numbers[0] == numbers[1] > 5


def test_entrants_of_a_round_meet_the_same_memory():
    turns: list[int] = []
    clock = FakeClock()
    factory = FakeFactory(clock, lambda schedule: DEFAULT_S)

    def spy(trial: FakeTrial, turn: int) -> Callable[[], object] | None:
        turns.append(turn)
        return factory.run_of(trial)

    search = make_search(factory, make_problem())
    search.always = (COMPOSITE,)
    rounds = search.style.rule.max_rounds
    tune(search, runner=spy, budget_s=1e6, clock=clock)
    assert turns[: 2 * rounds] == [turn for turn in range(rounds) for _ in range(2)]


@pytest.mark.parametrize(("true", "limit_s", "chosen"), [(0.5, 10.0, SINGLE), (1.1, 10.0, None), (0.5, 0.0, None)])
def test_a_candidate_whose_race_the_budget_ended_enters_the_last_race(true, limit_s, chosen):
    """End the search at every tenth of a product, and check every plan of a search that measured the candidate."""
    n_undecided = 0
    for tenths in range(10, 400):
        search, _, clock = searched({SINGLE: 0.5}, found=(SINGLE,), budget_s=tenths * DEFAULT_S / 10)
        if search.incumbent is not search.default or not search.measured_s:
            continue
        n_undecided += 1
        times = {SINGLE: true}
        plan = confirmed(served_by(clock, times, times), search, limit_s=limit_s, clock=clock)
        assert plan.schedule == chosen, tenths
        assert all(one.packed == (one is search.incumbent) for one in search.trials)
    assert n_undecided
