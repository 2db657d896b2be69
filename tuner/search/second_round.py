"""Second round of a search: corrected predictions and close losers, after the first measurements."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

from autosparse.tuner.analytic.matmul import Proposal
from autosparse.tuner.search.residual_model import next_best
from autosparse.tuner.search.trial import Trial

from autosparse.core.schedule import SuperSchedule
from autosparse.core.solver import Choice
from autosparse.targets.priors import number

CLOSE: Final = number("candidates", "close")
"""Maximum time of a candidate, as a multiple of the incumbent's, for which the race is repeated."""


def corrected_favourites(
    trials: Iterable[Trial], times_s: Mapping[Choice, float], *, default_s: float, n: int,
    more: Callable[[list[SuperSchedule]], Sequence[Proposal]], note: Callable[[Sequence[Proposal]], None],
) -> list[SuperSchedule]:  # fmt: skip
    """Return the `n` best schedules of the learned model after a correction by the measured errors.

    `more(measured)` returns the model's predictions; `note` stores those of unmeasured schedules.
    """
    ratios = {
        one.schedule: times_s[one.choice] / default_s
        for one in trials
        if one.choice in times_s and isinstance(one.schedule, SuperSchedule)
    }
    unfit = {one.schedule.format for one in trials if one.schedule is not None and one.failed}
    named = [one for one in more(list(ratios)) if one.schedule.format not in unfit]
    note([one for one in named if one.schedule not in ratios])
    return next_best(named, ratios, n)


def runners_up(
    trials: Iterable[Trial], times_s: Mapping[Choice, float], incumbent: Trial, title_s: float, *, n: int
) -> list[Trial]:
    """Return at most `n` candidates that lost to the incumbent narrowly; they race again, since races vary."""
    others = [one for one in trials if one is not incumbent and one.failed is None]
    near = [one for one in others if times_s.get(one.choice, math.inf) <= CLOSE * title_s]
    return sorted(near, key=lambda one: times_s[one.choice])[:n]
