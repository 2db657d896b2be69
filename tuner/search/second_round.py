"""Second round of a search: predictions corrected by the first measurements."""

from __future__ import annotations

from typing import TYPE_CHECKING

from autosparse.tuner.search.residual_model import next_best

from autosparse.core.composite import Schedule
from autosparse.core.schedule import SuperSchedule

if TYPE_CHECKING:
    from autosparse.tuner.search.search import Search


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
