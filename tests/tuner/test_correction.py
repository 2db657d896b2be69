"""Tests of correcting predictions by measured times of some schedules, and of the search that uses them."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np
import pytest
from autosparse.tuner import Search
from autosparse.tuner.analytic import residuals
from autosparse.tuner.analytic.matmul import Proposal
from autosparse.tuner.analytic.residuals import next_best
from autosparse.tuner.search.search import BLOCKING, LIVE
from autosparse.tuner.space import families as space
from hypothesis import given
from hypothesis import strategies as st

from autosparse.config import Effort
from autosparse.core.schedule import SuperSchedule
from tests.tuner.fakes import FakeClock, FakeFactory, FakeTrial, tune
from tests.tuner.test_tuner_search import FlatModel, make_problem, make_search


def of_rows(r: int, prefetch: int) -> SuperSchedule:
    """Return blocks of r rows."""
    return space.schedule("matmul", "ucu", {"r": r}, tile=32, prefetch=prefetch)


AHEAD = (0, 4, 8, 16)
BOTH = [of_rows(r, ahead) for ahead in AHEAD for r in (2, 4)]


def named(ratios: Sequence[float], schedules: Sequence[SuperSchedule] = BOTH) -> list[Proposal]:
    return [Proposal(one, ratio) for one, ratio in zip(schedules, ratios, strict=True)]


@given(st.permutations([0.5 + 0.05 * at for at in range(len(BOTH))]), st.integers(1, 10))
def test_without_times_the_predictions_decide(ratios: Sequence[float], n: int) -> None:
    best = sorted(zip(ratios, BOTH, strict=True), key=lambda pair: pair[0])[:n]
    assert next_best(named(ratios), {}, n) == [one for _, one in best]


@given(st.permutations([0.5 + 0.05 * at for at in range(len(BOTH))]), st.floats(0.5, 2.0))
def test_an_error_that_all_share_changes_no_order(ratios: Sequence[float], factor: float) -> None:
    timed = dict(zip(BOTH[:4], (ratio * factor for ratio in ratios), strict=False))  # two of each format
    fresh = sorted(zip(ratios[4:], BOTH[4:], strict=True), key=lambda pair: pair[0])
    assert next_best(named(ratios), timed, 4) == [one for _, one in fresh]


@pytest.mark.parametrize("worse", [2, 4])
def test_a_format_that_was_slower_than_predicted_comes_later(worse: int) -> None:
    timed = {of_rows(r, 0): 1.0 if r == worse else 0.8 for r in (2, 4)}
    found = next_best(named([0.8] * len(BOTH)), timed, 3)
    assert {one.format for one in found} == {of_rows(6 - worse, 0).format}


def test_predictions_far_apart_outweigh_an_error() -> None:
    timed = {of_rows(2, 0): 0.9, of_rows(4, 0): 0.8}
    ratios = [0.8 if one.format == of_rows(4, 0).format else 0.4 for one in BOTH]
    ratios[0] = 0.8  # of two rows, and measured a little slower
    assert {one.format for one in next_best(named(ratios), timed, 3)} == {of_rows(2, 0).format}


class Asked:
    """Learned model that names blocks of two rows first, and has predictions for all schedules."""

    price_s = 1e-3

    def __init__(self) -> None:
        self.known: list[Sequence[SuperSchedule]] = []

    def __call__(self) -> list[Proposal]:
        return named([0.6] * 3, [of_rows(2, ahead) for ahead in AHEAD[:3]])

    def more(self, known: Sequence[SuperSchedule]) -> list[Proposal]:
        self.known.append(known)
        return named([0.6] * 4 + [0.61] * 4, [of_rows(r, ahead) for r in (2, 4) for ahead in AHEAD])


def search_of(factory: FakeFactory, asked: Asked, *, is_live: bool = False) -> Search:
    style = dataclasses.replace(LIVE if is_live else BLOCKING, takes_all_proposals=True)
    search = make_search(factory, make_problem(), effort=Effort.MEASURE, style=style, model=FlatModel(lambda one: 4.0))
    search.propose = asked
    return search


def test_the_model_is_asked_again_after_its_favourites_were_measured() -> None:
    """Check that blocks of four rows are found as the fastest although the model predicts them to be slower."""
    asked, clock = Asked(), FakeClock()
    factory = FakeFactory(clock, lambda one: 1e-3 if one is None or one.format.split("i") != 4 else 5e-4)
    plan = tune(search_of(factory, asked), runner=factory.run_of, budget_s=100, clock=clock)
    assert [set(known) for known in asked.known] == [{of_rows(2, ahead) for ahead in AHEAD[:3]}]
    assert plan.schedule is not None
    assert plan.schedule.format.split("i") == 4
    tried = [trial.schedule for trial in factory.made[1:]]
    assert [one.format.split("i") for one in tried[:3]] == [2, 2, 2]
    assert {one.format.split("i") for one in tried[3:7]} == {4}
    by_schedule = {one.schedule: one for one in plan.candidates}
    assert by_schedule[of_rows(4, 0)].predicted_ratio == 0.61


def test_formats_that_failed_are_not_asked_for_again_and_lazy_tuning_asks_once() -> None:
    asked, clock = Asked(), FakeClock()

    def fail(trial: FakeTrial) -> None:
        trial.pack_fails = trial.schedule is not None and trial.schedule.prefetch == 8

    factory = FakeFactory(clock, lambda one: 1e-3, change=fail)
    tune(search_of(factory, asked), runner=factory.run_of, budget_s=100, clock=clock)
    assert of_rows(2, 16) not in [trial.schedule for trial in factory.made]
    lazy = Asked()
    tune(search_of(factory, lazy, is_live=True), runner=factory.run_of, budget_s=100, clock=clock)
    assert lazy.known == []


@given(st.integers(1, 12), st.integers(0, 100))
def test_elimination_equals_lapack(n: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    root, right = rng.standard_normal((n, n)), rng.standard_normal(n)
    matrix = root @ root.T + np.eye(n)
    np.testing.assert_allclose(residuals._solved(matrix, right), np.linalg.solve(matrix, right), rtol=1e-8, atol=1e-10)


def test_corrections_call_no_lapack(monkeypatch: pytest.MonkeyPatch) -> None:
    """OpenBLAS ends the process where it finds no memory for its buffers."""
    for name in ("solve", "lstsq", "inv", "cholesky"):
        monkeypatch.setattr(np.linalg, name, lambda *_: pytest.fail("LAPACK was called"))
    assert next_best(named([0.8] * len(BOTH)), {BOTH[0]: 0.9}, 2)
