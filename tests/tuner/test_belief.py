"""What is taken on a model's word, unmeasured: laws of `effort="estimate"`."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import pytest
from autosparse.tuner import space, tune
from autosparse.tuner.model import Proposal

from autosparse.config import Effort
from autosparse.schedule import SuperSchedule
from tests.tuner.fakes import FakeClock, FakeFactory
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
    """A learned model that names these schedules and their ratios."""

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
        ("matmul", 32, "", 32, 0.84, True),
        ("matmul", 32, "", 32, 0.86, False),
        ("matmul", 128, "first", 32, 0.89, True),
        ("matmul", 256, "first", space.WHOLE_ROW, 0.89, True),
        ("matmul", 256, "first", space.WHOLE_ROW, 0.91, False),
        ("matmul", 256, "rcm", space.WHOLE_ROW, 0.5, False),
        ("sddmm", 32, "first", space.WHOLE_ROW, 0.86, True),
        ("sddmm", 32, "", 32, 0.88, False),
    ],
)
def test_the_learned_model_is_believed_but_for_orders_that_are_dear(
    operation, columns, rows, tile, ratio, taken
) -> None:
    problem = dataclasses.replace(make_problem(columns), operation=operation)
    plain = space.candidates(problem, few_schedules if tile else any_schedule)[0]
    splits = (("j", tile),) if tile else ()
    named = dataclasses.replace(plain, format=dataclasses.replace(plain.format, rows=rows), dense_splits=splits)
    factory = FakeFactory(FakeClock(), lambda one: 1e-3)
    search = make_search(factory, problem, effort=Effort.ESTIMATE, model=FlatModel(lambda one: 0.99))
    search.propose = Named([Proposal(named, ratio)])
    plan = tune(search, runner=factory.run_of, budget_s=10, clock=factory.clock)
    assert plan.schedule == (named if taken else None)


def test_statistics_are_not_believed_where_the_learned_model_was_asked() -> None:
    """It has seen what they like; alone they are believed from a larger gain on, the larger the wider the product."""
    for columns, ratio, learned, taken in (
        (32, 0.79, False, True), (32, 0.81, False, False), (32, 0.5, True, False), (256, 0.71, False, False),
        (256, 0.69, False, True),
    ):  # fmt: skip
        problem = make_problem(columns)
        factory = FakeFactory(FakeClock(), lambda one: 1e-3)
        model = FlatModel(lambda one, ratio=ratio: ratio)
        search = make_search(factory, problem, effort=Effort.ESTIMATE, model=model)
        if learned:
            search.propose = Named([Proposal(space.candidates(problem, few_schedules)[0], 0.99)])
        plan = tune(search, runner=factory.run_of, budget_s=10, clock=factory.clock)
        assert plan.is_default != taken


def test_statistics_alone_never_order_rows_unmeasured() -> None:
    problem = make_problem(256, n=60_000, density=1e-4)
    factory = FakeFactory(FakeClock(), lambda one: 1e-3)
    model = FlatModel(lambda one: 0.5 if one.format.rows else 0.99)
    search = make_search(factory, problem, effort=Effort.ESTIMATE, model=model)
    assert any(one.format.rows for one in space.candidates(problem, any_schedule)), "B is far: orders are candidates"
    assert tune(search, runner=factory.run_of, budget_s=10, clock=factory.clock).is_default


def test_of_sampled_products_nothing_is_taken_unmeasured() -> None:
    problem = dataclasses.replace(make_problem(), operation="sddmm")
    factory = FakeFactory(FakeClock(), lambda one: 1e-3)
    search = make_search(factory, problem, effort=Effort.ESTIMATE, model=FlatModel(lambda one: 0.5))
    assert tune(search, runner=factory.run_of, budget_s=10, clock=factory.clock).is_default
    assert search.best_predicted_ratio() == 0.5
