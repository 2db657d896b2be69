"""The path of `A.tune(effort="measure")` through the planner: the functions that it enters, which must stay few."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, Final

import pytest
from autosparse._native import runtime_api
from autosparse.tuner.search import loop, race
from autosparse.tuner.search.trial import Trial

import autosparse as asp
from autosparse.core.plan import Plan
from autosparse.core.solver import DEFAULT
from autosparse.tuning.trials.context import TuningContext
from tests.tuning.forcing import make

pytestmark = pytest.mark.skipif(not runtime_api.available, reason="the C runtime was not built")

ROOT: Final = Path(asp.__file__).resolve().parent.parent
DECIDING: Final = ("autosparse/tuning/", "tuner/search/", "autosparse/core/plan.py", "autosparse/ops/registry.py")
"""Folders and files of the planner."""
OWN: Final = ("autosparse/tuning/trials/", "autosparse/tuning/learned.py", "autosparse/tuning/solvers/mkl.py",
              "autosparse/tuning/solvers/dense_rows.py", "autosparse/tuning/solvers/row_panels.py")  # fmt: skip
"""Among these, files that are not counted: packing, timing and comparison of kernels, cost models, solvers."""
MAX_FUNCTIONS: Final = 53
"""Maximum number of distinct functions of the planner; lower it when the count falls. The aim is 45."""
MAX_LINES: Final = 40


def entered(call: Any) -> dict[str, CodeType]:
    """Return the planner's functions that `call` enters, by file and name."""
    found: dict[str, CodeType] = {}

    def note(frame: FrameType, event: str, _: object) -> None:
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(str(ROOT)) and not code.co_name.startswith("<"):
            found.setdefault(
                f"{code.co_filename.removeprefix(f'{ROOT}/')}:{getattr(code, 'co_qualname', code.co_name)}", code
            )

    sys.setprofile(note)
    try:
        call()
    finally:
        sys.setprofile(None)
    return {name: code for name, code in found.items() if name.startswith(DECIDING) and not name.startswith(OWN)}


@pytest.fixture
def timed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give each kernel a fixed time, so that searches take the same path on every machine: the default is slowest."""
    originals, times_s = {name: getattr(TuningContext, name) for name in ("runner", "served")}, {DEFAULT: 1e-3}

    def named(name: str) -> Callable[..., Any]:
        def method(self: TuningContext, trial: Trial, *args: Any, **kwargs: Any) -> Any:
            run = originals[name](self, trial, *args, **kwargs)
            seconds = times_s.setdefault(trial.choice, 1e-4 * (1.0 + 0.02 * len(times_s)))
            return run and partial(call, run, seconds)

        return method

    def call(run: Callable[..., object], seconds: float, *args: Any) -> float:
        run(*args)
        return seconds

    for name in originals:
        monkeypatch.setattr(TuningContext, name, named(name))
    for module in (loop, race):
        monkeypatch.setattr(module, "timed_s", lambda run, **_: run())


@pytest.mark.usefixtures("timed")
def test_a_measured_plan_is_found_by_few_short_functions() -> None:
    first, second = (asp.csr(make(300, 300, seed=seed), copy=True) for seed in (0, 1))
    first.tune(columns=8, effort="estimate", budget_s=5.0)  # what a process does once: imports and spaces
    plans: list[Plan] = []
    found = entered(lambda: plans.append(second.tune(columns=8, effort="measure", budget_s=60.0)))
    assert plans[0].why.startswith("fastest of"), plans
    print(f"{len(found)} functions", *sorted(found), sep="\n  ")  # pytest shows it where the test fails, or with -s
    assert "autosparse/tuning/planner.py:plan" in found, "the count finds nothing any more"
    assert len(found) <= MAX_FUNCTIONS
    assert not {name: n for name, code in found.items() if (n := n_lines(code)) > MAX_LINES}


def n_lines(code: CodeType) -> int:
    """Return the number of lines of a function without its docstring."""
    first = code.co_consts[0] if code.co_consts else None
    n_described = first.count("\n") + 1 if isinstance(first, str) else 0
    return max(line or 0 for *_, line in code.co_lines()) - code.co_firstlineno - n_described
