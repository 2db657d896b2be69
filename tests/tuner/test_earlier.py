"""Tests of a search over several processes: measurements are not repeated, and the search comes to an end."""

from __future__ import annotations

import random

import pytest
from autosparse.tuner.search.earlier import MAX_EARLIER, Earlier, Ratio
from autosparse.tuner.search.loop import perform
from autosparse.tuner.search.outcome import plan_of
from autosparse.tuner.search.race import RaceRule
from autosparse.tuner.search.search import LIVE, Search
from autosparse.tuner.space import families as space
from hypothesis import given
from hypothesis import strategies as st

from autosparse.core.plan import Candidate, Plan
from autosparse.core.schedule import SuperSchedule
from autosparse.core.solver import DEFAULT, choice_of
from tests.tuner.fakes import FakeClock, FakeFactory
from tests.tuner.test_tuner_search import any_schedule, make_problem, make_search, time_by_hash

PROBLEM = make_problem()
EVERYTHING = space.candidates(PROBLEM, any_schedule)


def begun(factory: FakeFactory, known: Plan | None) -> Search:
    """Return a live search of a new process that continues from the plan of an earlier one."""
    search = make_search(factory, PROBLEM, style=LIVE)
    search.earlier = Earlier.of(known)
    start = search.earlier.first(known, LIVE.rule) if known is not None else None
    search.start = start.schedule if start is not None and isinstance(start.schedule, SuperSchedule) else None
    return search


def a_process(factory: FakeFactory, known: Plan | None, *, budget_s: float) -> tuple[Search, Plan]:
    """Search for `budget_s` seconds of the factory's clock, then end; return the search and its plan."""
    search = begun(factory, known)
    perform(search.steps(), runner=factory.run_of, budget_s=budget_s, clock=factory.clock)
    return search, plan_of(search, tune_s=0.0)


def a_factory(time_of: object = None) -> FakeFactory:
    return FakeFactory(FakeClock(), time_of or time_by_hash(0.3, 1.2))  # type: ignore[arg-type]


def raced(search: Search) -> list[SuperSchedule]:
    return [one.schedule for one in search.measured_s]  # type: ignore[misc]


@pytest.mark.parametrize("budget_s", [0.05, 0.08, 0.2])
def test_interrupted_searches_converge_to_the_plan_of_an_uninterrupted_one(budget_s: float) -> None:
    _, whole = a_process(a_factory(), None, budget_s=1e6)
    known, n_processes, search = None, 0, None
    while search is None or not search.finished:
        search, known = a_process(a_factory(), known, budget_s=budget_s)
        n_processes += 1
        assert n_processes < 50, "it measures the same candidates again and again"
    assert n_processes > 1
    assert known is not None
    assert known.measured_s == pytest.approx(whole.measured_s, rel=LIVE.rule.margin)


def test_no_candidate_is_raced_twice_but_the_best_one() -> None:
    known: Plan | None = None
    done: list[SuperSchedule] = []
    for _ in range(6):
        search, plan = a_process(a_factory(), known, budget_s=0.08)
        again = [one for one in raced(search) if one in done]
        assert not again or known is not None
        assert all(one == search.start for one in again)
        done += [one for one in raced(search) if search.earlier.is_measured(choice_of(one), LIVE.rule)]
        done += [
            one for one in raced(search) if Earlier.of(plan).is_measured(choice_of(one), LIVE.rule) and one not in done
        ]  # fmt: skip
        known = plan
    assert len(done) > 2


def test_a_plan_is_admitted_by_a_race_with_the_default_kernel_in_its_own_process() -> None:
    """Check that the best schedule of a record is not used without a new measurement."""
    best = EVERYTHING[3]
    known = Plan(
        choice=choice_of(best), why="", default_s=1e-3, measured_s=1e-4,
        candidates=tuple(
            Candidate(choice=choice_of(one), measured_s=1e-4 if one == best else 2e-4, n_samples=99)
            for one in EVERYTHING[:40]
        ),
    )  # fmt: skip
    factory = a_factory(lambda one: 1e-3 if one is None else 2e-3)
    search, plan = a_process(factory, known, budget_s=1e6)
    assert plan.schedule is None
    assert best in raced(search)
    assert len(raced(search)) > 1  # the record's winner lost, so nothing of the record counts


def test_records_never_select_a_slower_kernel() -> None:
    for seed in range(20):
        rng = random.Random(seed)
        names = rng.sample(EVERYTHING, 20)
        known = Plan(
            choice=choice_of(names[0]), why="", default_s=rng.choice([1e-9, 1e-3, 1e9]), measured_s=1e-3,
            candidates=tuple(
                Candidate(
                    choice=choice_of(one), measured_s=rng.choice([1e-12, 1e-3, 1e12]), n_samples=rng.randrange(100)
                )
                for one in names
            ),
        )  # fmt: skip
        factory = a_factory(time_by_hash(0.5, 3.0))
        _, plan = a_process(factory, known, budget_s=1e6)
        assert factory.time_of(plan.schedule) <= 1e-3  # type: ignore[arg-type]


def test_samples_of_an_interrupted_race_add_up() -> None:
    slow, rule = choice_of(EVERYTHING[2]), RaceRule(min_rounds=6)
    once = Earlier({slow: Ratio(1.0, 4)})
    assert not once.is_measured(slow, rule)
    assert Earlier({slow: once.ratios[slow].merged(0.5, 4)}).is_measured(slow, rule)
    assert once.ratios[slow].merged(0.5, 4) == Ratio(0.75, 8)
    assert once.ratios[slow].merged(0.5, 0) == once.ratios[slow]
    assert Ratio(1.0, 0).merged(0.5, 0) == Ratio(1.0, 0)


def test_a_candidate_that_was_far_behind_is_measured_with_few_samples() -> None:
    fast, slow = choice_of(EVERYTHING[1]), choice_of(EVERYTHING[2])
    assert Earlier({fast: Ratio(0.5, 6), slow: Ratio(0.9, 1)}).is_measured(slow, LIVE.rule)
    assert not Earlier({fast: Ratio(0.5, 6), slow: Ratio(0.6, 1)}).is_measured(slow, LIVE.rule)


@given(st.integers(min_value=0, max_value=200))
def test_carried_measurements_are_bounded(n: int) -> None:
    names = (EVERYTHING * (n // len(EVERYTHING) + 1))[:n]
    candidates = tuple(
        Candidate(choice=choice_of(one), measured_s=1e-3, n_samples=at + 1) for at, one in enumerate(names)
    )
    found = Earlier.of(Plan(choice=DEFAULT, why="", default_s=1e-3, candidates=candidates))
    assert len(found.ratios) == min(MAX_EARLIER, len(set(names)))


def test_candidates_without_samples_or_times_are_not_carried() -> None:
    one = EVERYTHING[0]
    for wrong in (
        Candidate(choice=choice_of(one)),
        Candidate(choice=choice_of(one), measured_s=1e-3),
        Candidate(choice=DEFAULT),
    ):
        assert not Earlier.of(Plan(choice=DEFAULT, why="", default_s=1e-3, candidates=(wrong,))).ratios
    good = Candidate(choice=choice_of(one), measured_s=1e-3, n_samples=9)
    assert not Earlier.of(Plan(choice=DEFAULT, why="", candidates=(good,))).ratios
    assert not Earlier.of(None).ratios
    assert Earlier.of(Plan(choice=DEFAULT, why="", default_s=2e-3, candidates=(good,))).ratios == {
        choice_of(one): Ratio(0.5, 9)
    }


def test_the_plan_names_what_earlier_processes_measured() -> None:
    _, known = a_process(a_factory(), None, budget_s=0.08)
    _, plan = a_process(a_factory(), known, budget_s=0.08)
    before = {one.schedule for one in known.candidates if one.n_samples}
    assert before <= {one.schedule for one in plan.candidates if one.n_samples}
    names = [one.schedule for one in plan.candidates]
    assert len(names) == len(set(names))
