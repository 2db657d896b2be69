"""Loop that performs the steps of a search, at once within a budget (`tune`) or one by one (`autosparse.tuning.live`).

A generator yields steps (`Search.steps`, `autosparse.tuning.session`), and the loop sends back the seconds of each.
`autosparse.tuning.live` performs a step after a product once earlier products have paid for it.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Generator
from typing import Any, Protocol

from autosparse.tuner.search.outcome import plan_of
from autosparse.tuner.search.race import timed_s
from autosparse.tuner.search.search import Search
from autosparse.tuner.search.trial import Pause, Step, Trial, Work, name_of

from autosparse.core.plan import Plan
from autosparse.core.solver import Choice

Progress = Callable[[float, str], None]  # (share of the budget used, current activity)
Observe = Callable[[Work, float], None]  # (performed work, seconds)


class StepLoop:
    """Runner of the steps that a generator yields: `pending` is the next one, `result` the generator's return value."""

    __slots__ = ("_steps", "pending", "result")

    def __init__(self, steps: Generator[Step, float | None, Any]) -> None:  # Any: the generator's result type
        self._steps = steps
        self.pending: Step | None = None
        self.result: Any = None
        self.answer(None)  # starts the generator

    def answer(self, seconds: float | None) -> None:
        """Send the seconds of the pending step to the generator and receive the next step."""
        try:
            self.pending = self._steps.send(seconds)
        except StopIteration as end:
            self.pending, self.result = None, end.value

    def close(self) -> None:
        """Close the generator and drop the pending step."""
        self.pending = None
        self._steps.close()


def done(work: Work, clock: Callable[[], float], observe: Observe | None) -> float:
    """Perform a piece of work, report its seconds to `observe`, which updates cost estimates, and return them."""
    start_s = clock()
    work.do()
    seconds = clock() - start_s
    if observe is not None:
        observe(work, seconds)
    return seconds


class Runner(Protocol):
    """Interface of a function that runs one product with a trial into a preallocated result."""

    def __call__(self, trial: Trial, turn: int) -> Callable[[], object] | None:
        """Return a closure to time, or None when the trial cannot run; equal `turn` means equal memory addresses."""


def perform(
    loop: StepLoop, *, runner: Runner, budget_s: float = math.inf, clock: Callable[[], float] = time.perf_counter,
    progress: Progress | None = None, observe: Observe | None = None,
) -> None:  # fmt: skip
    """Perform the steps of `loop` in a row until none is left or about `budget_s` seconds have passed.

    A step whose expected cost exceeds the remaining time ends the loop, unless the step is optional, in which case it
    is skipped.
    """
    end_s, usual_s = clock() + budget_s, dict[Choice, float]()  # shortest time of each choice so far
    while (step := loop.pending) is not None and not isinstance(step, Pause) and (left_s := end_s - clock()) > 0:
        is_affordable = step.price_s <= left_s
        if not is_affordable and not (isinstance(step, Work) and step.is_optional):
            return
        if progress is not None:
            what = f"{step.kind} {step.what}".strip() if isinstance(step, Work) else f"time {name_of(step.trial)}"
            progress(min(1.0, 1.0 - left_s / budget_s), what)
        if not is_affordable:
            seconds = None
        elif isinstance(step, Work):
            seconds = done(step, clock, observe)
        elif (run := runner(step.trial, step.turn)) is None:
            seconds = None
        else:
            least_s = usual_s.get(step.trial.choice, math.inf)
            seconds = timed_s(run, clock=clock, usual_s=least_s)
            usual_s[step.trial.choice] = min(least_s, seconds)
        loop.answer(seconds)


def tune(
    search: Search, *, runner: Runner, budget_s: float, clock: Callable[[], float] = time.perf_counter,
    progress: Progress | None = None, observe: Observe | None = None,
) -> Plan:  # fmt: skip
    """Run `search` for at most about `budget_s` seconds (see `perform`) and return the best plan so far.

    KeyboardInterrupt propagates after the search was closed: packed copies of losing trials are dropped, the incumbent
    keeps its own.
    """
    start_s, loop = clock(), StepLoop(search.steps())
    try:
        perform(loop, runner=runner, budget_s=budget_s, clock=clock, progress=progress, observe=observe)
    finally:
        loop.close()
    if progress is not None:
        progress(1.0, "done")
    return plan_of(search, tune_s=clock() - start_s)
