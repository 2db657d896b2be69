"""The driver of a tuning that the user asked for: every step in a row, until done or until the budget ends."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Protocol

from autosparse.tuner.search.race import timed_s
from autosparse.tuner.search.search import Search
from autosparse.tuner.search.trial import Sample, Trial, Work

from autosparse.core.plan import Plan

Progress = Callable[[float, str], None]  # (share of the budget used, what is being done)


class Runner(Protocol):
    """Runs one product with a trial into a result that was allocated before."""

    def __call__(self, trial: Trial) -> Callable[[], object] | None:
        """A closure to time, or None when this trial cannot run."""


def tune(
    search: Search,
    *,
    runner: Runner,
    budget_s: float,
    clock: Callable[[], float] = time.perf_counter,
    progress: Progress | None = None,
    observe: Callable[[Work, float], None] | None = None,
) -> Plan:
    """Run `search` for at most about `budget_s` seconds and return the best plan so far.

    A step whose expected price exceeds what is left is not begun. `observe` receives every piece of work with its
    seconds (prices are learnt from it). KeyboardInterrupt passes through after the search was closed: packed copies of
    losers are dropped, the champion keeps its own.
    """
    start_s = clock()
    usual_s: dict[int, float] = {}  # id(trial) -> the least that it took
    steps = search.steps()
    try:
        step = next(steps, None)
        while step is not None:
            left_s = budget_s - (clock() - start_s)
            is_too_dear = step.price_s > left_s
            if left_s <= 0 or (is_too_dear and not _is_optional(step)):
                break
            if progress is not None:
                progress(min(1.0, 1.0 - left_s / budget_s), _describe(step))
            seconds = None if is_too_dear else _do(step, runner=runner, clock=clock, observe=observe, usual_s=usual_s)
            try:
                step = steps.send(seconds)
            except StopIteration:
                step = None
    finally:
        steps.close()
    if progress is not None:
        progress(1.0, "done")
    return search.plan(tune_s=clock() - start_s)


def _is_optional(step: Work | Sample) -> bool:
    return isinstance(step, Work) and step.is_optional


def _do(
    step: Work | Sample,
    *,
    runner: Runner,
    clock: Callable[[], float],
    observe: Callable[[Work, float], None] | None,
    usual_s: dict[int, float],
) -> float | None:
    if isinstance(step, Sample):
        run = runner(step.trial)
        if run is None:
            return None
        least_s = usual_s.get(id(step.trial), math.inf)
        seconds = timed_s(run, clock=clock, usual_s=least_s)
        usual_s[id(step.trial)] = min(least_s, seconds)
        return seconds
    start_s = clock()
    step.do()
    seconds = clock() - start_s
    if observe is not None:
        observe(step, seconds)
    return seconds


def _describe(step: Work | Sample) -> str:
    if isinstance(step, Work):
        return f"{step.kind} {step.what}".strip()
    return f"time {step.trial.schedule.format if step.trial.schedule else 'default kernel'}"
