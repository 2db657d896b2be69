"""Loop that performs the steps of a search, and the policy for explicitly requested tuning.

A generator yields steps (`Search.steps`, `autosparse.tuning.session`), and the loop sends back the seconds of each. A
policy decides when the loop stops and how long a step may take. `WithinBudget` performs the steps in a row until a
budget ends. `autosparse.tuning.live` performs a step after a product once earlier products have paid for it.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Generator
from functools import partial
from typing import Any, Protocol, TypeAlias

from autosparse.tuner.search.outcome import plan_of
from autosparse.tuner.search.race import timed_s
from autosparse.tuner.search.search import Search
from autosparse.tuner.search.trial import Pause, Sample, Step, Trial, Work, name_of

from autosparse.core.plan import Plan
from autosparse.core.solver import Choice
from autosparse.core.values import dataclass, field

Progress = Callable[[float, str], None]  # (share of the budget used, current activity)
Observe = Callable[[Work, float], None]  # (performed work, seconds)
Perform: TypeAlias = Callable[[], "float | None"]
"""Function that performs a step and returns its seconds, or None when no time was taken."""


class Policy(Protocol):
    """Interface of a policy, which decides whether a step of a search is performed, skipped, or ends the loop."""

    def permit(self, step: Step) -> Perform | None:
        """Return a function that performs or skips the step, or None to stop the loop before it."""


class StepLoop:
    """Runner of the steps that a generator yields: `pending` is the next one, `result` the generator's return value."""

    __slots__ = ("_steps", "pending", "result")

    def __init__(self, steps: Generator[Step, float | None, Any]) -> None:  # Any: the generator's result type
        self._steps = steps
        self.pending: Step | None = None
        self.result: Any = None
        self.answer(None)  # starts the generator

    def run(self, policy: Policy) -> None:
        """Perform steps until `policy` stops the loop or no step is left."""
        while (step := self.pending) is not None and (perform := policy.permit(step)) is not None:
            self.answer(perform())

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


def skipped() -> None:
    """Do nothing and return None, in place of a skipped step."""


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


@dataclass(slots=True, kw_only=True)
class WithinBudget:
    """Policy that performs every step at once until about `budget_s` seconds have passed since its creation.

    A step whose expected cost exceeds the remaining time ends the loop, unless the step is optional, in which case it
    is skipped.
    """

    runner: Runner
    budget_s: float = math.inf
    clock: Callable[[], float] = time.perf_counter
    progress: Progress | None = None
    observe: Observe | None = None
    start_s: float = field(init=False)
    _usual_s: dict[Choice, float] = field(init=False, default_factory=dict)  # shortest time so far

    def __post_init__(self) -> None:
        self.start_s = self.clock()

    def permit(self, step: Step) -> Perform | None:
        """Return how to perform `step` within the remaining budget; see `Policy`."""
        left_s = self.budget_s - (self.clock() - self.start_s)
        if isinstance(step, Pause) or left_s <= 0:
            return None
        is_affordable = step.price_s <= left_s
        if not is_affordable and not (isinstance(step, Work) and step.is_optional):
            return None
        if self.progress is not None:
            what = f"{step.kind} {step.what}".strip() if isinstance(step, Work) else f"time {name_of(step.trial)}"
            self.progress(min(1.0, 1.0 - left_s / self.budget_s), what)
        if not is_affordable:
            return skipped
        return partial(done, step, self.clock, self.observe) if isinstance(step, Work) else partial(self._time, step)

    def _time(self, sample: Sample) -> float | None:
        run, key = self.runner(sample.trial, sample.turn), sample.trial.choice
        if run is None:
            return None
        least_s = self._usual_s.get(key, math.inf)
        seconds = timed_s(run, clock=self.clock, usual_s=least_s)
        self._usual_s[key] = min(least_s, seconds)
        return seconds


def tune(
    search: Search,
    *,
    runner: Runner,
    budget_s: float,
    clock: Callable[[], float] = time.perf_counter,
    progress: Progress | None = None,
    observe: Observe | None = None,
) -> Plan:
    """Run `search` for at most about `budget_s` seconds (see `WithinBudget`) and return the best plan so far.

    KeyboardInterrupt propagates after the search was closed: packed copies of losing trials are dropped, the incumbent
    keeps its own.
    """
    policy = WithinBudget(runner=runner, budget_s=budget_s, clock=clock, progress=progress, observe=observe)
    loop = StepLoop(search.steps())
    try:
        loop.run(policy)
    finally:
        loop.close()
    if progress is not None:
        progress(1.0, "done")
    return plan_of(search, tune_s=clock() - policy.start_s)
