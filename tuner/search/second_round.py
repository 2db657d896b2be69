"""Candidates that a search takes after the first ones were measured: favourites, neighbours and close losers."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

from autosparse.tuner.analytic.matmul import Proposal
from autosparse.tuner.search.residual_model import next_best
from autosparse.tuner.search.trial import Trial

from autosparse.core.schedule import SuperSchedule

CLOSE: Final = 1.05
"""Maximum time of a candidate, as a multiple of the incumbent's, for which the race with it is repeated."""


def corrected_favourites(
    trials: Iterable[Trial], times_s: Mapping[int, float], *, default_s: float, n: int,
    more: Callable[[list[SuperSchedule]], Sequence[Proposal]], note: Callable[[Sequence[Proposal]], None],
) -> list[SuperSchedule]:  # fmt: skip
    """Return `n` favourites of the learned model after what was measured has shown where it errs.

    `more` asks the model, `note` keeps its predictions of schedules that were not measured.
    """
    ratios = {
        one.schedule: times_s[id(one)] / default_s
        for one in trials
        if id(one) in times_s and isinstance(one.schedule, SuperSchedule)
    }
    unfit = {one.schedule.format for one in trials if one.schedule is not None and one.failed}
    named = [one for one in more(list(ratios)) if one.schedule.format not in unfit]
    note([one for one in named if one.schedule not in ratios])
    return next_best(named, ratios, n)


def runners_up(
    trials: Iterable[Trial], times_s: Mapping[int, float], incumbent: Trial, title_s: float, *, n: int
) -> list[Trial]:
    """Return candidates that lost to the incumbent by little: each meets it once more, since a race may be unlucky."""
    others = [one for one in trials if one is not incumbent and one.failed is None]
    near = [one for one in others if times_s.get(id(one), math.inf) <= CLOSE * title_s]
    return sorted(near, key=lambda one: times_s[id(one)])[:n]
