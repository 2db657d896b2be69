"""Second round of a search: corrected predictions and close losers, after the first measurements."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

from autosparse.tuner.search.residual_model import next_best
from autosparse.tuner.search.trial import Trial

from autosparse.core.composite import Schedule
from autosparse.core.schedule import SuperSchedule

if TYPE_CHECKING:
    from autosparse.tuner.search.search import Search

CLOSE: Final = 1.05
"""Maximum time of a candidate, as a multiple of the incumbent's, for which the race is repeated."""


def corrected_favourites(search: Search) -> list[SuperSchedule]:
    """Return the best schedules of the learned model after a correction by the measured errors, if a model ran.

    The queue keeps the predictions of schedules that were not measured.
    """
    propose, default_s, n = search.propose, search.default_s, search.style.n_corrected
    if propose is None or not search.queue.proposed or not default_s or not n:
        return []
    ratios = {
        one.schedule: search.measured_s[one.choice] / default_s
        for one in search.trials
        if one.choice in search.measured_s and isinstance(one.schedule, SuperSchedule)
    }
    unfit = {one.schedule.format for one in search.trials if isinstance(one.schedule, Schedule) and one.failed}
    named = [one for one in propose.more(list(ratios)) if one.schedule.format not in unfit]
    search.queue.ratios |= {one.schedule: one.ratio for one in named if one.schedule not in ratios}
    return list(filter(search.can_make, next_best(named, ratios, n)))


def runners_up(search: Search) -> list[Trial]:
    """Return the candidates that lost to the incumbent narrowly; they race again, since races vary."""
    times_s, incumbent = search.measured_s, search.incumbent
    title_s = times_s.get(incumbent.choice, search.default_s or 0.0)
    others = [one for one in search.trials if one is not incumbent and one.failed is None]
    near = [one for one in others if times_s.get(one.choice, math.inf) <= CLOSE * title_s]
    return sorted(near, key=lambda one: times_s[one.choice])[: search.style.n_reraces]
