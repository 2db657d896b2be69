"""Tests of `effort="estimate"`: which predictions are accepted without a measurement."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Sequence

import pytest
from autosparse.tuner.analytic.matmul import Proposal
from autosparse.tuner.search.search import MAX_REFUSED
from autosparse.tuner.space import families as space

from autosparse.config import Effort
from autosparse.core.schedule import RUNTIME, SuperSchedule
from tests.tuner.fakes import FakeClock, FakeFactory, FakeTrial, tune
from tests.tuner.test_tuner_search import FlatModel, any_schedule, few_schedules, make_problem, make_search


def test_estimate_runs_nothing_and_trusts_only_a_sure_model() -> None:
    problem = make_problem()
    for ratio, taken in ((0.5, True), (0.95, False)):
        clock = FakeClock()
        factory = FakeFactory(clock, lambda one: 1e-3)
        model = FlatModel(lambda one, ratio=ratio: ratio)
        search = make_search(factory, problem, effort=Effort.ESTIMATE, model=model)
        plan = tune(search, runner=factory.run_of, budget_s=10, clock=clock)
        assert plan.is_default is not taken
        assert sum(trial.n_runs for trial in factory.made) == 0


@dataclasses.dataclass
class Named:
    """Learned model that proposes the given schedules with their ratios."""

    proposals: Sequence[Proposal]
    price_s: float = 1e-3

    def __call__(self) -> Sequence[Proposal]:
        return self.proposals

    def more(self, known: Sequence[SuperSchedule]) -> Sequence[Proposal]:
        return ()


@pytest.mark.parametrize(
    ("operation", "columns", "rows", "tile", "ratio", "taken"),
    [
        ("matmul", 1, "", 0, 0.89, True),
        ("matmul", 1, "", 0, 0.91, False),
        ("matmul", 32, "", 32, 0.91, True),
        ("matmul", 32, "", 32, 0.92, False),
        ("matmul", 128, "first", 32, 0.92, True),
        ("matmul", 256, "first", RUNTIME, 0.92, True),
        ("matmul", 256, "first", RUNTIME, 0.94, False),
        ("matmul", 256, "rcm", RUNTIME, 0.5, False),
        ("sddmm", 32, "first", RUNTIME, 0.94, True),
        ("sddmm", 32, "", 32, 0.96, False),
        ("sddmm", 256, "first", RUNTIME, 0.91, True),
    ],
)
def test_learned_predictions_are_accepted_except_for_costly_row_orders(
    operation, columns, rows, tile, ratio, taken
) -> None:
    problem = dataclasses.replace(make_problem(columns), operation=operation)
    plain = space.candidates(problem, few_schedules if tile else any_schedule)[0]
    fmt = dataclasses.replace(plain.format, rows=rows)
    if tile == RUNTIME:
        named = SuperSchedule(operation="matmul", format=fmt, implementation=RUNTIME)
    else:
        named = dataclasses.replace(plain, format=fmt, dense_splits=(("j", tile),) if tile else ())
    factory = FakeFactory(FakeClock(), lambda one: 1e-3)
    search = make_search(factory, problem, effort=Effort.ESTIMATE, model=FlatModel(lambda one: 0.99))
    search.propose = Named([Proposal(named, ratio)])
    plan = tune(search, runner=factory.run_of, budget_s=10, clock=factory.clock)
    assert plan.schedule == (named if taken else None)


def test_the_learned_model_takes_precedence_over_statistics() -> None:
    """Check the gain required of statistics alone: it grows with the number of columns.

    The learned model's opinion takes precedence, because it was trained on these problems.
    """
    for columns, ratio, learned, taken in (
        (32, 0.70, False, True), (32, 0.71, False, False), (32, 0.5, True, False), (256, 0.66, False, False),
        (256, 0.65, False, True),
    ):  # fmt: skip
        problem = make_problem(columns)
        factory = FakeFactory(FakeClock(), lambda one: 1e-3)
        model = FlatModel(lambda one, ratio=ratio: ratio)
        search = make_search(factory, problem, effort=Effort.ESTIMATE, model=model)
        if learned:
            search.propose = Named([Proposal(space.candidates(problem, few_schedules)[0], 0.99)])
        plan = tune(search, runner=factory.run_of, budget_s=10, clock=factory.clock)
        assert plan.is_default != taken


def test_an_estimate_ignores_the_proposed_number_of_threads() -> None:
    """Check that a proposal's number of threads is not taken: it was chosen for the model's training matrices."""
    problem = make_problem()
    named = dataclasses.replace(space.candidates(problem, few_schedules)[0], threads=1)
    factory = FakeFactory(FakeClock(), lambda one: 1e-3)
    search = make_search(factory, problem, effort=Effort.ESTIMATE, model=FlatModel(lambda one: 0.99))
    search.propose = Named([Proposal(named, 0.5)])
    plan = tune(search, runner=factory.run_of, budget_s=10, clock=factory.clock)
    assert plan.schedule == dataclasses.replace(named, threads=0)
    assert plan.predicted_ratio == 0.5


def test_statistics_alone_never_order_rows_unmeasured() -> None:
    problem = make_problem(256, n=60_000, density=1e-4)
    factory = FakeFactory(FakeClock(), lambda one: 1e-3)
    model = FlatModel(lambda one: 0.5 if one.format.rows else 0.99)
    search = make_search(factory, problem, effort=Effort.ESTIMATE, model=model)
    assert any(one.format.rows for one in space.candidates(problem, any_schedule)), "B is far: orders are candidates"
    assert tune(search, runner=factory.run_of, budget_s=10, clock=factory.clock).is_default


def test_estimates_select_no_kernel_for_sampled_products() -> None:
    problem = dataclasses.replace(make_problem(), operation="sddmm")
    factory = FakeFactory(FakeClock(), lambda one: 1e-3)
    search = make_search(factory, problem, effort=Effort.ESTIMATE, model=FlatModel(lambda one: 0.5))
    assert tune(search, runner=factory.run_of, budget_s=10, clock=factory.clock).is_default
    assert min(search.queue.ratios.values()) == 0.5


def test_estimate_goes_on_with_other_formats_where_some_do_not_fit() -> None:
    """Check that all schedules of a refused format are skipped; after a few formats the default kernel stays."""
    problem = make_problem()
    by_format: dict[object, list[SuperSchedule]] = {}
    for one in space.candidates(problem, any_schedule):
        by_format.setdefault(one.format, []).append(one)
    several = [group[:4] for group in by_format.values() if len(group) >= 4 and not group[0].format.is_csr]
    assert len(several) > MAX_REFUSED
    proposals = [Proposal(one, 0.5 + 0.001 * at) for at, one in enumerate(itertools.chain.from_iterable(several))]
    for n_refused, taken in ((0, 0), (2, 2), (MAX_REFUSED - 1, MAX_REFUSED - 1), (MAX_REFUSED, None)):
        unfit = {group[0].format for group in several[:n_refused]}

        def refuse(trial: FakeTrial, unfit: set[object] = unfit) -> None:
            trial.pack_fails = trial.schedule is not None and trial.schedule.format in unfit

        factory = FakeFactory(FakeClock(), lambda one: 1e-3, change=refuse)
        search = make_search(factory, problem, effort=Effort.ESTIMATE, model=FlatModel(lambda one: 0.99))
        search.propose = Named(proposals)
        plan = tune(search, runner=factory.run_of, budget_s=10, clock=factory.clock)
        assert plan.schedule == (several[taken][0] if taken is not None else None)
        assert len([trial for trial in factory.made if trial.schedule is not None]) == min(n_refused + 1, MAX_REFUSED)
