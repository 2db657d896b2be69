"""Tests of races on a user's products: a plan serves only if it is faster than what serves, as the program runs it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from autosparse.tuner.search.earlier import Earlier
from autosparse.tuner.search.search import LIVE, Search
from autosparse.tuner.space import families as space

from autosparse.core.plan import Candidate, Plan
from autosparse.core.schedule import SuperSchedule
from autosparse.core.solver import DEFAULT, Choice, choice_of
from autosparse.tuning import live
from tests.tuner.fakes import FakeClock, FakeFactory, FakeTrial
from tests.tuner.test_tuner_search import FlatModel, any_schedule, make_problem, make_search
from tests.tuning.test_live import FakeSession, make_live_tuner

PROBLEM = make_problem()
SERVING, OTHER, *_ = space.candidates(PROBLEM, any_schedule)
DEFAULT_S = 1e-4


class SearchSession(FakeSession):
    """Session of a search among trials whose products take scripted times."""

    def __init__(self, clock: FakeClock, search: Search) -> None:
        super().__init__(clock, [], misjudged=1.0, challenger_s=1.0)
        self.search = search  # type: ignore[assignment]
        self.steps = search.steps  # type: ignore[method-assign]

    @property
    def incumbent(self) -> Any:  # Any: a FakeTrial in place of a ServedTrial
        """The search's incumbent, which serves; None: the default kernel."""
        found: Any = self.search
        return None if found is None or found.incumbent.schedule is None else found.incumbent

    @incumbent.setter
    def incumbent(self, value: None) -> None:
        """Do nothing."""


def begun(factory: FakeFactory, known: Plan | None) -> Search:
    """Return a live search for two candidates, of which the first one serves already at 0.8 of the default's time."""

    def supports(operation: str, one: SuperSchedule) -> str | None:
        return None if one in (SERVING, OTHER) else "not in this test"

    search = make_search(factory, PROBLEM, style=LIVE, model=FlatModel(lambda _: 0.5), supports=supports)
    if known is not None:
        search.earlier = Earlier.of(known)
        search.start = first.schedule if (first := search.earlier.first(known, LIVE.rule)) is not None else None
    serving = factory(choice_of(SERVING))
    serving.build()
    serving.pack()
    search.begin_with(serving, default_s=DEFAULT_S, measured_s=0.8 * DEFAULT_S)
    return search


def incumbent_after(
    monkeypatch: pytest.MonkeyPatch, repeated: Mapping[SuperSchedule | None, float],
    first: Mapping[SuperSchedule | None, float], *, known: Plan | None = None,
) -> SuperSchedule | None:  # fmt: skip
    """Run products until the search is over; return the schedule that serves then.

    A product takes `first` seconds after one by another kernel, else `repeated`. The search continues that of `known`.
    """
    monkeypatch.setattr(live, "ServedTrial", FakeTrial)
    monkeypatch.setattr(live, "served_of", lambda trial: None if trial.schedule is None else trial)
    factory = FakeFactory(FakeClock(), lambda one: repeated.get(one, 1.0))
    tuner, search = make_live_tuner(overhead=1.0), begun(factory, known)
    tuner.clock, state = factory.clock, tuner.state
    tuner.begin(SearchSession(factory.clock, search))  # type: ignore[arg-type]  # it has what the tuner reads
    state.next_look_ns, before = 0.0, SERVING
    state.serving = search.incumbent
    for _ in range(20_000):
        serving: Any = state.serving
        schedule = None if serving is None else serving.schedule
        took_s = (repeated if schedule == before else first)[schedule]
        before = schedule
        state.count(round(took_s * 1e9), is_tuned=serving is not None)
        if state.product_ns >= state.next_look_ns:
            tuner.look(8, serving, round(took_s * 1e9))
        if tuner.pending is None:
            break
    assert tuner.pending is None
    assert choice_of(OTHER) in search.measured_s or known is not None
    found: Any = search.incumbent.schedule  # Any: a SuperSchedule, or None
    return found  # type: ignore[no-any-return]


def test_a_kernel_that_is_faster_only_after_another_one_does_not_serve(monkeypatch: pytest.MonkeyPatch) -> None:
    """Check that samples are products that follow one by the same kernel, as nearly all of a program do.

    After another kernel's product the caches hold other data: a kernel with fewer bytes then seems faster.
    """
    repeated = {None: 1.0, SERVING: 0.7, OTHER: 0.85}
    first = {None: 1.05, SERVING: 1.2, OTHER: 0.86}
    scaled = [{one: ratio * DEFAULT_S for one, ratio in each.items()} for each in (repeated, first)]
    assert incumbent_after(monkeypatch, *scaled) == SERVING


@pytest.mark.parametrize(("ratio", "wins"), [(0.97, False), (0.98, False), (0.9, True)])
def test_a_candidate_must_beat_what_serves_by_the_margin(ratio, wins, monkeypatch):
    times_s = {None: DEFAULT_S, SERVING: 0.7 * DEFAULT_S, OTHER: ratio * 0.7 * DEFAULT_S}
    assert (incumbent_after(monkeypatch, times_s, times_s) == OTHER) is wins


def test_a_kernel_that_serves_and_lost_its_lead_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    times_s = {None: DEFAULT_S, SERVING: 1.2 * DEFAULT_S, OTHER: 0.9 * DEFAULT_S}
    assert incumbent_after(monkeypatch, times_s, times_s) == OTHER


def left(choice: Choice, **ratios: float) -> Plan:
    """Return the plan of an unfinished search that measured SERVING and OTHER."""
    named = {"serving": SERVING, "other": OTHER}
    measured = tuple(
        Candidate(choice=choice_of(named[name]), measured_s=ratio * DEFAULT_S, n_samples=12)
        for name, ratio in ratios.items()
    )
    return Plan(choice=choice, why="", default_s=DEFAULT_S, measured_s=0.8 * DEFAULT_S, candidates=measured)


@pytest.mark.parametrize(("other", "is_first"), [(0.79, False), (0.77, False), (0.6, True)])
def test_a_later_process_begins_with_the_plan_that_was_proven(other: float, is_first: bool) -> None:
    """Check that a candidate that did not replace the plan does not do so because a new process begins."""
    plan = left(choice_of(SERVING), serving=0.8, other=other)
    assert Earlier.of(plan).first(plan, LIVE.rule) == choice_of(OTHER if is_first else SERVING)


@pytest.mark.parametrize(("ratio", "wins"), [(0.98, False), (0.9, True)])
def test_a_candidate_of_an_earlier_process_races_beside_the_plan(ratio, wins, monkeypatch):
    """Check that a candidate whose race ended with its process must beat the plan that serves the next one."""
    times_s = {None: DEFAULT_S, SERVING: 0.7 * DEFAULT_S, OTHER: ratio * 0.7 * DEFAULT_S}
    known = left(choice_of(SERVING), serving=0.8, other=0.6)
    assert (incumbent_after(monkeypatch, times_s, times_s, known=known) == OTHER) is wins


def test_without_a_proven_plan_a_later_process_begins_with_the_fastest_candidate() -> None:
    plan = left(DEFAULT, serving=0.8, other=0.7)
    assert Earlier.of(plan).first(plan, LIVE.rule) == choice_of(OTHER)
    plan = left(DEFAULT, serving=0.99, other=0.98)
    assert Earlier.of(plan).first(plan, LIVE.rule) is None


def test_a_served_plan_races_with_the_default_kernel_before_a_search_continues(monkeypatch: pytest.MonkeyPatch) -> None:
    """Check that a plan of an unfinished search is dropped where it is slower than the default kernel now."""
    times_s = {None: DEFAULT_S, SERVING: 1.2 * DEFAULT_S, OTHER: 1.1 * DEFAULT_S}
    known = left(choice_of(SERVING), serving=0.8, other=0.9)
    assert incumbent_after(monkeypatch, times_s, times_s, known=known) is None
