"""The loop that does the steps of tuning, for every policy, and the policy of tuning that the user asked for.

A generator proposes steps (`Search.steps`, `autosparse.tuning.session`), and the loop sends back the seconds of each.
A policy decides when the loop stops and how long a step may take: `WithinBudget` does every step in a row until a
budget ends; `autosparse.tuning.live` does a step after a product, when the products so far have paid for it.
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
from autosparse.core.values import dataclass, field

Progress = Callable[[float, str], None]  # (share of the budget used, what is being done)
Observe = Callable[[Work, float], None]  # a piece of work that was done, and its seconds
Perform: TypeAlias = Callable[[], "float | None"]
"""Does a step and returns its seconds; None when there is no time to tell."""


class Policy(Protocol):
    """Decides about each step before it is done."""

    def permit(self, step: Step) -> Perform | None:
        """How the step is done now, or passed over; None stops the loop before it."""


class StepLoop:
    """Does the steps of a generator in their order. `pending` is the next one, `result` what the generator returned."""

    __slots__ = ("_steps", "pending", "result")

    def __init__(self, steps: Generator[Step, float | None, Any]) -> None:  # Any: whatever the steps lead to
        self._steps = steps
        self.pending: Step | None = None
        self.result: Any = None
        self.answer(None)  # starts the generator

    def run(self, policy: Policy) -> None:
        """Go on until `policy` stops the loop or no step is left."""
        while (step := self.pending) is not None and (perform := policy.permit(step)) is not None:
            self.answer(perform())

    def answer(self, seconds: float | None) -> None:
        """Tell the generator what the pending step took, and ask for the next one."""
        try:
            self.pending = self._steps.send(seconds)
        except StopIteration as end:
            self.pending, self.result = None, end.value

    def close(self) -> None:
        """No more steps."""
        self.pending = None
        self._steps.close()


def skipped() -> None:
    """Performs a step that is passed over."""


def done(work: Work, clock: Callable[[], float], observe: Observe | None) -> float:
    """Do a piece of work and tell `observe` (prices are learnt from it); its seconds."""
    start_s = clock()
    work.do()
    seconds = clock() - start_s
    if observe is not None:
        observe(work, seconds)
    return seconds


class Runner(Protocol):
    """Runs one product with a trial into a result that was allocated before."""

    def __call__(self, trial: Trial, turn: int) -> Callable[[], object] | None:
        """A closure to time, or None when this trial cannot run; who is given one `turn` meets the same memory."""


@dataclass(slots=True, kw_only=True)
class WithinBudget:
    """Policy: every step at once, until about `budget_s` seconds have passed since the policy was made.

    A step whose expected price exceeds what is left ends the loop; an optional one is passed over.
    """

    runner: Runner
    budget_s: float = math.inf
    clock: Callable[[], float] = time.perf_counter
    progress: Progress | None = None
    observe: Observe | None = None
    start_s: float = field(init=False)
    _usual_s: dict[int, float] = field(init=False, default_factory=dict)  # id(trial) -> the least that it took

    def __post_init__(self) -> None:
        self.start_s = self.clock()

    def permit(self, step: Step) -> Perform | None:
        """See `Policy`."""
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
        run, key = self.runner(sample.trial, sample.turn), id(sample.trial)
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

    KeyboardInterrupt passes through after the search was closed: packed copies of losers are dropped, the incumbent
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
