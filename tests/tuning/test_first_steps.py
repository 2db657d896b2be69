"""Tests that one-time costs of a process's first steps are not taken for the cost of later ones."""

from __future__ import annotations

import sys
from itertools import count
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sps
from autosparse._native import runtime_api
from autosparse.tuner.search.loop import perform
from autosparse.tuner.space import spaces

import autosparse as asp
from autosparse import _native
from autosparse.config import Effort
from autosparse.dispatch import executor
from autosparse.tuning import loading
from autosparse.tuning.live import LiveTuner
from autosparse.tuning.setup import context_of, session_of
from autosparse.tuning.solvers import candidates
from autosparse.tuning.trials.context import TuningContext
from tests.tuning.forcing import state_of

pytestmark = pytest.mark.skipif(not runtime_api.available, reason="needs the C runtime")


def matrix(seed: int = 0) -> Any:
    """Return a random square matrix large enough to be tuned."""
    return asp.csr(sps.random_array((3_000, 3_000), density=2e-3, random_state=seed, dtype="float32", format="csr"))


def test_making_the_space_is_a_step_of_its_own_once_per_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Check that making the space is timed apart from ranking.

    It takes ten times as long; timed together, it would inflate the cost estimate of ranking.
    """
    assert _native.supports, "what kernels need is loaded: the first of a process makes the space with it"
    monkeypatch.setattr(spaces, "_made", set())
    kinds = [_steps_until_ranked(matrix(seed)) for seed in range(2)]
    assert kinds[0].count("space") == 1
    assert kinds[0].index("space") < kinds[0].index("rank")
    assert "space" not in kinds[1]


def test_a_tuning_that_was_asked_for_makes_the_space_before_ranking_is_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spaces, "_made", set())
    had = []
    original = spaces.entrants
    monkeypatch.setattr(
        spaces, "entrants", lambda problem, supports: had.append(spaces.is_made(problem)) or original(problem, supports)
    )
    matrix().tune(effort="estimate")
    assert had[:2] == [False, True], "ranking finds the space that was made before it"


@pytest.mark.parametrize("live", [False, True])
def test_without_a_compiler_only_kernels_that_exist_are_tried(live: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Check that candidates that need a compiler take no place of precompiled ones where there is none."""
    A = matrix()
    A @ np.ones(3_000, np.float32)
    monkeypatch.setattr(TuningContext, "compiler_id", lambda self: "none")
    context = context_of(A._cell, state_of(A))
    search = candidates.search_for(context, effort=Effort.MEASURE, live=live)
    perform(search.steps(), runner=context.runner, budget_s=20.0)
    assert search.trials, "precompiled kernels are candidates"
    missing = [one for one in search.trials if one.schedule is not None and not context.is_built(one.schedule)]
    assert len(missing) <= 1, "one names the missing compiler"


def test_loading_the_modules_counts_as_tuning_of_the_first_problem(monkeypatch: pytest.MonkeyPatch) -> None:
    """Check that the advance on loading them cannot be spent a second time on the steps after it."""
    A = matrix()
    found = executor.state_for(A._cell, np.ones(3_000, np.float32), 1, False)
    found.product_ns = 10**9  # pays for a first look
    monkeypatch.delitem(sys.modules, "autosparse.tuning.setup")
    monkeypatch.delitem(sys.modules, "colorsys", raising=False)
    monkeypatch.setattr(loading, "STEPS", ("colorsys", "autosparse.tuning.setup"))
    monkeypatch.setattr(loading, "perf_counter", count(0.0, 0.5).__next__)
    monkeypatch.setattr(LiveTuner, "look", lambda *_: None)
    monkeypatch.setattr(executor, "_is_enough", lambda *_: False)
    executor._look(found, A._cell, 1, None, 100_000)
    assert found.live_tuner is None
    assert found.product_ns >= found.next_look_ns, "the next product goes on"
    executor._look(found, A._cell, 1, None, 100_000)
    assert found.live_tuner.tuning_s == 1.0  # type: ignore[union-attr]


def _steps_until_ranked(A: Any) -> list[str]:
    """Run the steps of a session up to "rank"; return the kinds of all steps."""
    A @ np.ones(3_000, np.float32)
    found = state_of(A)
    session = session_of(LiveTuner(found), A._cell)
    session.make_context = lambda: context_of(A._cell, found)
    kinds: list[str] = []
    steps = session.steps()
    step = next(steps)
    while not kinds or kinds[-1] != "rank":
        step.do()  # type: ignore[union-attr]
        kinds.append(step.kind)  # type: ignore[union-attr]
        step = steps.send(0.0)
    steps.close()
    return kinds
