"""Time each part of a composite alone: its kernel on its packed copy, with synthetic dense operands."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Final

from autosparse.core.composite import Composite
from autosparse.core.values import dataclass
from autosparse.dispatch.protocols import Bound, Serving
from autosparse.errors import TUNING_FAILURES
from autosparse.log import event
from autosparse.targets.priors import number
from autosparse.tuning.trials.context import TuningContext, unwatched

MAX_RUNS: Final = 7
"""Maximum number of timed runs of one part."""
MAX_S: Final = number("checks", "part time s")
"""Maximum seconds spent on timing one part, after a first run that is not counted."""


@dataclass(frozen=True, slots=True)
class PartTime:
    """Fastest seconds of one part of a composite, and the bytes of the part's packed copy."""

    seconds: float
    n_bytes: int

    @property
    def rate(self) -> float:
        """Bytes of the packed copy per second."""
        return self.n_bytes / self.seconds


def part_times(context: TuningContext, serving: Serving | None, composite: Composite) -> tuple[PartTime, ...]:
    """Return the fastest time of each part of `composite`, timed alone; () if `serving` does not compute `composite`.

    It is empty as well if a part cannot run.
    """
    operand, bound = context.operand(), serving.bound if serving is not None else None
    packed: Any = bound.packed if bound is not None else None  # a PackedComposite where parts are bound
    if operand is None or packed is None or packed.fmt != composite:
        return ()
    bounds: Any = getattr(bound, "bounds", ())
    try:
        call = context.adapter.synthetic(context.problem, operand)[0]

        def run_alone(part: Bound) -> Callable[[], object]:
            return lambda: unwatched(lambda given: given.by(part, context.n_threads()), call)

        pairs = zip(bounds, packed.parts, strict=True)
        return tuple(PartTime(_fastest_s(run_alone(one)), part.nbytes) for one, part in pairs)
    except TUNING_FAILURES as err:
        event("fallback", f"parts are not timed: {type(err).__name__}: {err}")
        return ()


def _fastest_s(run: Callable[[], object]) -> float:
    """Return the least seconds of several runs, after one that warms the caches."""
    run()
    clock, fastest_s = time.perf_counter, float("inf")
    end_s = clock() + MAX_S
    for _ in range(MAX_RUNS):
        start_s = clock()
        run()
        fastest_s = min(fastest_s, max(clock() - start_s, 1e-9))
        if clock() > end_s:
            break
    return fastest_s
