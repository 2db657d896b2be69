"""Perform the steps of a search, at once within a budget (`perform`) or one by one (`StepLoop`).

A generator yields steps (`Search.steps`, `autosparse.tuning.session`) and is sent the seconds of each.
`autosparse.tuning.live` performs a step after a product once earlier products have paid for it.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Generator
from contextlib import closing
from typing import Any, Final, TypeAlias

from autosparse.tuner.search.race import timed_s
from autosparse.tuner.search.trial import Pause, Sample, Step, Steps, Trial, Work

from autosparse.core.solver import Choice
from autosparse.core.values import dataclass

Progress = Callable[[float, str], None]  # (share of the budget used, current activity)
Observe = Callable[[Work, float], None]  # (performed work, seconds)


START: Final = Pause(n_calls=0)
"""Pending step of a loop that has not begun; its answer starts the generator."""


@dataclass(slots=True, eq=False)
class StepLoop:
    """Runner of the steps that a generator yields: `pending` is the next one. The first answer starts the generator."""

    steps: Steps
    pending: Step | None = START

    def answer(self, seconds: float | None) -> None:
        """Send the seconds of the pending step to the generator and receive the next step."""
        try:
            self.pending = self.steps.send(seconds)
        except StopIteration:
            self.pending = None


Runner: TypeAlias = Callable[[Trial, int], "Callable[[], object] | None"]
"""Type of a function that returns a closure that runs one product by a trial in a round of a race, to be timed.

Equal rounds use equal memory addresses. It returns None when the trial cannot run.
"""


def perform(
    steps: Generator[Step, float | None, Any], *, runner: Runner, budget_s: float = math.inf,
    clock: Callable[[], float] = time.perf_counter, progress: Progress | None = None, observe: Observe | None = None,
) -> Any:  # fmt: skip
    """Perform `steps` in a row until none is left or about `budget_s` seconds have passed, then close the generator.

    KeyboardInterrupt propagates after the steps were closed: a search then drops all packed copies but the incumbent's.
    Return the generator's result; None if the budget ended it. A step whose expected cost exceeds the remaining time
    ends it, unless the step is optional, in which case it is skipped.
    """
    end_s, usual_s = clock() + budget_s, dict[Choice, float]()  # shortest time of each choice so far
    seconds: float | None = None
    with closing(steps):
        while True:
            try:
                step = steps.send(seconds)
            except StopIteration as end:
                return end.value
            if isinstance(step, Pause) or (left_s := end_s - clock()) <= 0:
                return None
            seconds, is_affordable = None, step.price_s <= left_s
            if not is_affordable and not (isinstance(step, Work) and step.is_optional):
                return None
            if progress is not None:
                what = (
                    f"{step.kind} {step.what}".strip() if isinstance(step, Work) else f"time {step.trial.choice.name}"
                )
                progress(min(1.0, 1.0 - left_s / budget_s), what)
            if is_affordable and isinstance(step, Work):
                start_s = clock()
                step.do()
                seconds = clock() - start_s
                if observe is not None:
                    observe(step, seconds)
            elif is_affordable and isinstance(step, Sample) and (run := runner(step.trial, step.turn)) is not None:
                least_s = usual_s.get(step.trial.choice, math.inf)
                seconds = timed_s(run, clock=clock, usual_s=least_s)
                usual_s[step.trial.choice] = min(least_s, seconds)
