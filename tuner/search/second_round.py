"""Candidates that a search takes after the first ones were measured: favourites, neighbours and close losers."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

from autosparse.tuner.search.neighbours import neighbours
from autosparse.tuner.search.residual_model import next_best

from autosparse.core.schedule import SuperSchedule

if TYPE_CHECKING:
    from autosparse.tuner.search.search import Search
    from autosparse.tuner.search.trial import Trial

CLOSE: Final = 1.05
"""Maximum time of a candidate, as a multiple of the champion's, for which the race with it is repeated."""


def corrected_favourites(search: Search) -> list[SuperSchedule]:
    """The learned model's favourites after what was measured has shown where it errs."""
    if search.propose is None or not search.queue.n_proposed or not search.default_s or not search.style.n_corrected:
        return []
    ratios = {
        one.schedule: search.measured_s[id(one)] / search.default_s
        for one in search.trials
        if id(one) in search.measured_s and isinstance(one.schedule, SuperSchedule)
    }
    unfit = {one.schedule.format for one in search.trials if one.schedule is not None and one.failed}
    named = [one for one in search.propose.more(list(ratios)) if one.schedule.format not in unfit]
    search.queue.note([one for one in named if one.schedule not in ratios])
    return next_best(named, ratios, search.style.n_corrected)


def runners_up(search: Search) -> list[Trial]:
    """Those that lost to the champion by little: each meets it again, for of many races some are unlucky."""
    title_s = search.measured_s.get(id(search.champion), search.default_s or 0.0)
    others = [one for one in search.trials if one is not search.champion and one.failed is None]
    near = [one for one in others if search.measured_s.get(id(one), math.inf) <= CLOSE * title_s]
    return sorted(near, key=lambda one: search.measured_s[id(one)])[: search.style.n_rematches]


def around_champion(search: Search) -> list[SuperSchedule]:
    """Return the schedules that differ from the champion's in one place."""
    one = search.champion.schedule
    return list(neighbours(search.problem, one, search.supports)) if isinstance(one, SuperSchedule) else []
