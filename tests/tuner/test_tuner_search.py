"""Tests of the search and the blocking driver, with simulated trials and a clock moved by hand."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Callable, Sequence

import numpy as np
import pytest
import scipy.sparse
from autosparse.tuner import Search
from autosparse.tuner.search.cost_estimates import DEFAULT_RATES_S, CostEstimates, RunningMean
from autosparse.tuner.search.outcome import plan_of
from autosparse.tuner.search.search import BLOCKING, LIVE, MAX_PAIR_BYTES, SearchStyle
from autosparse.tuner.search.trial import Sample
from autosparse.tuner.space import families as space
from autosparse.tuner.space.neighbours import neighbours
from hypothesis import given
from hypothesis import strategies as st

from autosparse.config import Effort
from autosparse.core.pattern import Pattern
from autosparse.core.problem import Problem
from autosparse.core.schedule import SuperSchedule
from autosparse.core.solver import DEFAULT
from autosparse.core.target import Target
from tests.tuner.fakes import FakeClock, FakeFactory, FakeTrial, Noise, tune

TARGET = Target(
    cpu="test", machine="x86_64", isa="avx2", n_cores=2, l1_bytes=32 << 10, l2_bytes=1 << 20, l3_bytes=32 << 20
)


def any_schedule(operation: str, one: SuperSchedule) -> None:
    """Accept every schedule, as a backend that lowers everything."""


def few_schedules(operation: str, one: SuperSchedule) -> str | None:
    """Accept a part of the space only; return the reason otherwise."""
    return None if one.dense_split("j") == 32 and one.unroll == 1 else "not here"


def make_problem(n_dense_cols: int = 32, *, n: int = 300, transposed: bool = False, density: float = 0.05) -> Problem:
    rng = np.random.default_rng(0)
    matrix = scipy.sparse.random_array((n, n + 7), density=density, random_state=rng, format="csr")
    pattern = Pattern(n, n + 7, matrix.indptr, matrix.indices)
    return Problem(
        operation="matmul", pattern=pattern, transposed=transposed, n_dense_cols=n_dense_cols, dtype="float32",
        threads=2, deterministic=False, target=TARGET,
    )  # fmt: skip


class FlatModel:
    """Model that predicts the default kernel's time for every schedule, or the given ratios."""

    def __init__(self, ratio_of: Callable[[SuperSchedule], float] = lambda _: 1.0) -> None:
        self.ratio_of = ratio_of

    def rank(self, problem: Problem, schedules: Sequence[SuperSchedule | None]) -> list[float]:
        return [1.0 if one is None else self.ratio_of(one) for one in schedules]


def make_search(
    factory: FakeFactory, problem: Problem, *, effort: Effort = Effort.MEASURE, style: SearchStyle = BLOCKING,
    model: FlatModel | None = None, supports: space.Supports | None = None,
) -> Search:  # fmt: skip
    default = factory(DEFAULT)
    return Search(
        problem=problem, effort=effort, make_trial=factory, default=default, incumbent=default,
        model=lambda: model or FlatModel(),
        supports=supports or any_schedule, cost_estimates=CostEstimates(), style=style,
    )  # fmt: skip


def time_by_hash(fastest: float, slowest: float, default_s: float = 1e-3) -> Callable[[SuperSchedule | None], float]:
    """Return a function that gives every schedule a different, reproducible time between the two ratios."""

    def time_of(one: SuperSchedule | None) -> float:
        if one is None:
            return default_s
        return default_s * random.Random(one.stable_hash()).uniform(fastest, slowest)

    return time_of


# -- search and driver ------------------------------------------------------------------------------------------


def test_stalls_of_the_default_kernel_make_no_other_one_fast() -> None:
    """Check products of 20 us, where a third of the default kernel's samples contains a time slice."""
    clock, n = FakeClock(), 0
    factory = FakeFactory(clock, lambda one: 2.1e-5 if one else 2e-5)

    def stalled(trial: FakeTrial, turn: int) -> Callable[[], object] | None:
        nonlocal n
        run, n = factory.run_of(trial), n + 1
        if trial.schedule is not None or n % 3:
            return run
        stalls = iter([4e-3])
        return lambda: clock.spend(next(stalls, 2e-5))

    plan = tune(make_search(factory, make_problem()), runner=stalled, budget_s=100, clock=clock)
    assert plan.schedule is None
    assert plan.default_s == pytest.approx(2e-5, rel=0.1)


def test_a_budget_too_small_for_all_kernels_of_a_batch_builds_one() -> None:
    clock = FakeClock()
    factory = FakeFactory(clock, lambda one: 5e-4 if one else 1e-3)
    search = make_search(factory, make_problem())
    built: list[int] = []
    search.build_all = lambda trials: built.append(len(trials))
    plan = tune(search, runner=factory.run_of, budget_s=0.035, clock=clock)  # a kernel takes 0.01 s
    assert not built
    assert plan.schedule is not None


@pytest.mark.parametrize("seed", range(5))
def test_full_search_finds_the_best_schedule_of_the_space(seed: int) -> None:
    clock, problem = FakeClock(), make_problem()
    everything = space.everything(problem, few_schedules)
    goal = random.Random(seed).choice(everything)
    default_s = 1e-3
    factory = FakeFactory(clock, lambda one: default_s * (0.4 if one == goal else 1.0), Noise(seed, level=0.02))
    search = make_search(factory, problem, effort=Effort.FULL, supports=few_schedules)
    plan = tune(search, runner=factory.run_of, budget_s=1e6, clock=clock)
    assert plan.schedule == goal
    assert plan.measured_s == pytest.approx(0.4 * plan.default_s, rel=0.15)
    assert plan.effort == "full"


@pytest.mark.parametrize("seed", range(5))
def test_plan_is_never_slower_than_the_default(seed: int) -> None:
    clock = FakeClock()
    factory = FakeFactory(clock, time_by_hash(0.95, 3.0), Noise(seed, level=0.05))
    plan = tune(make_search(factory, make_problem()), runner=factory.run_of, budget_s=100, clock=clock)
    assert factory.time_of(plan.schedule) <= 1e-3


def test_the_order_of_the_model_decides_which_candidates_are_measured() -> None:
    clock, problem = FakeClock(), make_problem()
    everything = space.candidates(problem, any_schedule)
    hopeful = everything[7]
    factory = FakeFactory(clock, lambda one: 5e-4 if one == hopeful else 1e-3)
    model = FlatModel(lambda one: 0.5 if one == hopeful else 4.0)
    plan = tune(make_search(factory, problem, model=model), runner=factory.run_of, budget_s=100, clock=clock)
    assert plan.schedule == hopeful
    first = [trial.schedule for trial in factory.made[1:]]
    assert first[0] == hopeful
    assert set(first[1:]) <= set(neighbours(problem, hopeful, any_schedule))  # all others were hopeless


@pytest.mark.parametrize("effort", [Effort.ESTIMATE, Effort.MEASURE])
def test_a_search_that_finds_nothing_worth_measuring_is_over(effort: Effort) -> None:
    """Check that the plan records the requested effort; otherwise every later process would search again."""
    clock = FakeClock()
    factory = FakeFactory(clock, lambda one: 1e-3)
    search = make_search(factory, make_problem(), effort=effort, model=FlatModel(lambda one: 4.0))
    plan = tune(search, runner=factory.run_of, budget_s=100, clock=clock)
    assert plan.is_default
    assert plan.effort == effort.value
    assert factory.made[1:] == []


@pytest.mark.parametrize("budget_s", [0.0, 1e-4, 0.02, 0.1])
@pytest.mark.parametrize("effort", [Effort.MEASURE, Effort.FULL])
def test_budget_is_kept(budget_s: float, effort: Effort) -> None:
    clock = FakeClock()
    factory = FakeFactory(clock, time_by_hash(0.5, 2.0))
    plan = tune(
        make_search(factory, make_problem(), effort=effort), runner=factory.run_of, budget_s=budget_s, clock=clock
    )
    longest_step_s = 100 * 2e-3  # a sample
    assert clock.now_s <= budget_s + longest_step_s
    if budget_s == 0.0:
        assert plan.is_default
        assert clock.now_s == 0.0


def test_failing_builds_and_packs_leave_the_default_and_say_why() -> None:
    clock = FakeClock()

    def change(trial: FakeTrial) -> None:
        trial.build_fails = trial.schedule is not None and trial.schedule.format.is_csr
        trial.pack_fails = trial.schedule is not None and not trial.schedule.format.is_csr

    factory = FakeFactory(clock, lambda one: 1e-3, change=change)
    plan = tune(make_search(factory, make_problem()), runner=factory.run_of, budget_s=100, clock=clock)
    assert plan.is_default
    named = [one for one in plan.candidates if one.schedule is not None]
    untried = [one for one in named if not one.failed]
    assert {one.failed for one in named} >= {"the compiler said no", "too large"}
    assert all(one.measured_s is None and one.predicted_ratio for one in untried)  # listed with their predictions
    assert len(factory.made) - 1 == 2 * BLOCKING.n_candidates  # not more: each may be a call of the compiler


def test_candidates_that_cannot_be_tried_make_room_for_others() -> None:
    clock = FakeClock()
    factory = FakeFactory(clock, lambda one: 1e-3)
    factory.change = lambda trial: setattr(trial, "pack_fails", 0 < len(factory.made) <= 6)
    plan = tune(make_search(factory, make_problem()), runner=factory.run_of, budget_s=100, clock=clock)
    assert sum(one.measured_s is not None for one in plan.candidates) - 1 == BLOCKING.n_candidates


def test_at_most_incumbent_and_one_challenger_are_packed() -> None:
    clock, most = FakeClock(), 0
    factory = FakeFactory(clock, time_by_hash(0.3, 1.5))

    def run_of(trial: object, turn: int) -> Callable[[], object] | None:
        nonlocal most
        most = max(most, sum(one.packed for one in factory.made if one.schedule and not one.schedule.format.is_csr))
        return factory.run_of(trial)

    plan = tune(make_search(factory, make_problem()), runner=run_of, budget_s=100, clock=clock)
    kept = [one for one in factory.made if one.packed]
    assert [one.schedule for one in kept] == [plan.schedule]
    assert 1 <= most <= 2


def test_incumbent_makes_room_and_comes_back() -> None:
    """Check that the best candidate wins and is packed in the end, with room for one packed copy only."""
    clock = FakeClock()

    def room(trial: FakeTrial) -> bool:
        return not any(one.packed and one.schedule and not one.schedule.format.is_csr for one in factory.made)

    def change(trial: FakeTrial) -> None:
        trial.packed_bytes = 0 if trial.schedule is None or trial.schedule.format.is_csr else 100
        if trial.packed_bytes:
            trial.room = room

    factory = FakeFactory(clock, time_by_hash(0.3, 1.5), change=change)
    search = make_search(factory, make_problem())
    plan = tune(search, runner=factory.run_of, budget_s=100, clock=clock)
    times = [factory.time_of(one.schedule) for one in search.trials]
    assert factory.time_of(plan.schedule) <= min(times) * 1.04
    assert [one.schedule for one in factory.made if one.packed] == [plan.schedule]


@pytest.mark.parametrize("style", [BLOCKING, LIVE])
def test_large_packed_copies_never_exist_in_pairs(style: SearchStyle) -> None:
    """Check that a candidate takes the memory of the incumbent, which is packed again unless the candidate wins."""
    clock, alive = FakeClock(), []

    def room(trial: FakeTrial) -> bool:  # kernels of one format share a packed copy
        held = {one.schedule.format for one in factory.made if one.packed and one.packed_bytes}
        alive.append(held - {trial.schedule.format} if trial.packed_bytes else set())
        return True

    def change(trial: FakeTrial) -> None:
        trial.packed_bytes = 0 if trial.schedule is None or trial.schedule.format.is_csr else MAX_PAIR_BYTES
        trial.room = room

    factory = FakeFactory(clock, time_by_hash(0.3, 1.5), change=change)
    search = make_search(factory, make_problem(), style=style)
    plan = tune(search, runner=factory.run_of, budget_s=100, clock=clock)
    times = [factory.time_of(one.schedule) for one in search.trials]
    assert factory.time_of(plan.schedule) <= min(times) / (1.0 - style.rule.margin)
    assert not any(alive)
    assert sum(one.packed_bytes > 0 for one in search.trials) > 1
    assert [one.schedule for one in factory.made if one.packed] == [plan.schedule]


def test_interrupt_drops_everything_but_the_incumbent() -> None:
    clock = FakeClock()
    factory = FakeFactory(clock, time_by_hash(0.3, 1.5))
    n_samples = 0

    def run_of(trial: object, turn: int) -> Callable[[], object] | None:
        nonlocal n_samples
        n_samples += 1
        if n_samples == 40:
            raise KeyboardInterrupt
        return factory.run_of(trial)

    search = make_search(factory, make_problem())
    with pytest.raises(KeyboardInterrupt):
        tune(search, runner=run_of, budget_s=100, clock=clock)
    kept = [one for one in factory.made if one.packed and one is not search.incumbent]
    assert kept == []
    assert not search.finished
    assert "not finished" in plan_of(search, tune_s=1.0).why


def test_remembered_weaker_schedule_is_tried_first() -> None:
    problem = make_problem()
    start = space.candidates(problem, any_schedule)[-1]
    factory = FakeFactory(FakeClock(), lambda one: 1e-3)
    search = dataclasses.replace(make_search(factory, problem), start=start)
    tune(search, runner=factory.run_of, budget_s=100, clock=factory.clock)
    assert factory.made[-1].schedule is not None
    assert search.trials[0].schedule == start


def test_live_samples_are_priced_at_their_expected_excess() -> None:
    clock, problem = FakeClock(), make_problem()
    factory = FakeFactory(clock, time_by_hash(0.5, 2.0))
    steps = make_search(factory, problem, style=LIVE).steps()
    step = next(steps)
    cost_estimates = []
    try:
        while True:
            if isinstance(step, Sample):
                cost_estimates.append((step.trial.schedule is None, step.price_s))
                step = steps.send(factory.time_of(step.trial.schedule))
            else:
                step.do()
                step = steps.send(1e-3)
    except StopIteration:
        pass
    assert all(price >= 0.0 for _, price in cost_estimates)
    assert max(price for _, price in cost_estimates) <= 1.5e-3
    assert cost_estimates


# -- cost estimates ---------------------------------------------------------------------------------------------


@given(values=st.lists(st.floats(1e-6, 1e3), min_size=1, max_size=50))
def test_mean_stays_within_what_was_seen(values: list[float]) -> None:
    cost_estimates = CostEstimates({"rank": RunningMean(values[0])})
    for value in values:
        cost_estimates.observe("rank", value)
    assert min(values) * (1 - 1e-9) <= cost_estimates.price_s("rank") <= max(values) * (1 + 1e-9)


@given(seconds=st.floats(1e-6, 10.0), units=st.floats(1, 1e9), gain=st.floats(0, 0.98))
def test_cost_estimates_round_trip(seconds: float, units: float, gain: float) -> None:
    cost_estimates = CostEstimates()
    cost_estimates.observe("pack", seconds, units)
    cost_estimates.observe_gain("matmul|32", gain)
    assert CostEstimates.from_record(cost_estimates.to_record()) == cost_estimates  # within ten times the default rates
    assert cost_estimates.price_s("pack", units) == pytest.approx(
        min(seconds, 10 * CostEstimates().price_s("pack", units))
    )
    assert cost_estimates.price_s("rank") == DEFAULT_RATES_S["rank"]


@pytest.mark.parametrize(
    "record",
    [None, {}, {"rates_s": 3}, {"rates_s": {"pack": "x", "build?": [1, 2]}}, {"gains": {"a": [float("nan"), 1]}}],
)
def test_invalid_cost_records_are_ignored(record: dict[str, object] | None) -> None:
    assert CostEstimates.from_record(record) == CostEstimates()


@dataclasses.dataclass
class UnluckyAtFirst(Noise):
    """Noise that slows the first runs by a quarter."""

    n_slow: int = 40

    def factor(self) -> float:
        self.n_slow -= 1
        return 1.25 if self.n_slow >= 0 else 1.0


@pytest.mark.parametrize("n_reraces", [0, BLOCKING.n_reraces])
def test_close_loser_is_re_raced(n_reraces: int) -> None:
    problem, clock = make_problem(), FakeClock()
    steady, unlucky = [one for one in space.candidates(problem, any_schedule) if not one.format.is_csr][:2]

    def change(trial: FakeTrial) -> None:
        if trial.schedule == unlucky:
            trial.noise = UnluckyAtFirst(seed=0)

    factory = FakeFactory(clock, lambda one: {steady: 5.9e-4, unlucky: 4.9e-4}.get(one, 1e-3), change=change)
    model = FlatModel(lambda one: {steady: 0.5, unlucky: 0.6}.get(one, 4.0))
    style = dataclasses.replace(BLOCKING, n_reraces=n_reraces)
    search = make_search(factory, problem, style=style, model=model)
    plan = tune(search, runner=factory.run_of, budget_s=100, clock=clock)
    assert plan.schedule == (unlucky if n_reraces else steady)


@pytest.mark.parametrize(("style", "n_first"), [(BLOCKING, 1), (LIVE, 2)])
def test_background_tuning_tries_two_available_kernels_before_compiling(style, n_first):
    """Check that this holds even where the second one has a lower predicted gain than one that must be compiled."""
    problem = make_problem()
    ranked = list(dict.fromkeys(space.candidates(problem, any_schedule)))
    ratios = {one: 0.5 + 0.02 * at for at, one in enumerate(ranked)}
    search = make_search(FakeFactory(FakeClock(), lambda _: 1e-3), problem, style=style, model=FlatModel(ratios.get))
    search.queue.rank(problem, search.model(), search.supports, start=search.start)
    before = list(search.queue.schedules)
    there = [before[0], before[3]]
    search.queue.prefer_built(there.__contains__, hopeless=1.1, n=style.n_built)
    after = list(search.queue.schedules)
    assert after[:n_first] == there[:n_first]
    assert after[n_first:] == [one for one in before if one not in there[:n_first]]
