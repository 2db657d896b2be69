"""The candidates of one search, in the order in which they are tried."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import field, replace
from typing import Final

from autosparse.tuner.analytic.matmul import CostModel, Proposal
from autosparse.tuner.search.style import diverse
from autosparse.tuner.space import spaces
from autosparse.tuner.space.template import Supports

from autosparse.core.composite import Schedule
from autosparse.core.formats import DICTIONARY, Format
from autosparse.core.problem import Problem
from autosparse.core.schedule import SuperSchedule
from autosparse.core.values import dataclass

BUILT_TOLERANCE: Final = 0.05
"""A kernel that is there comes before one predicted to be this share faster: errors are larger, compilations dear."""
GAIN: Final = 0.1  # of the default time, for the second of several kernels that are there
MAX_ASKED: Final = 6
"""Candidates whose kernels are looked for."""


@dataclass(slots=True)
class Queue:
    """Schedules with their predicted times over the default kernel's, best first; iterates over them in order."""

    _proposed: dict[int, float] = field(default_factory=dict)  # id(schedule) the learned model named -> guess
    _schedules: list[SuperSchedule] = field(default_factory=list)
    _ratios: dict[int, float] = field(default_factory=dict)  # id(schedule) -> predicted ratio to the default kernel
    _start: SuperSchedule | None = None

    def __iter__(self) -> Iterator[SuperSchedule]:
        return iter(self._schedules)

    @property
    def n_proposed(self) -> int:
        """How many the learned model named."""
        return len(self._proposed)

    def is_proposed(self, schedule: SuperSchedule) -> bool:
        """Whether the learned model named it."""
        return id(schedule) in self._proposed

    def ratio_of(self, schedule: Schedule | None) -> float | None:
        """Predicted time over the default kernel's (None as schedule: 1); None when the model was not asked."""
        return 1.0 if schedule is None else self._ratios.get(id(schedule))

    def guess_of(self, schedule: SuperSchedule | None) -> float:
        """What the statistics model expects of a proposal of the learned one; 1 where it was not asked."""
        return self._proposed.get(id(schedule), 1.0)

    def best_ratio(self) -> float | None:
        """The smallest predicted ratio; None before the model was asked."""
        return min(self._ratios.values(), default=None)

    def rank(self, problem: Problem, model: CostModel, supports: Supports, *, start: SuperSchedule | None) -> None:
        """Order the space by predicted time behind `start`, and keep the best of every format near the front."""
        entrants = spaces.entrants(problem, supports)
        default_s, *times = model.rank(problem, entrants.schedules)
        schedules = [one for one in entrants.schedules if one is not None]
        ratios = [time_s / default_s if default_s > 0 else 1.0 for time_s in times]
        order = sorted(range(len(schedules)), key=ratios.__getitem__)
        self._ratios = {id(schedules[at]): ratios[at] for at in order}  # the space keeps them alive
        self._schedules = [schedules[at] for at in diverse(order, entrants.format_of, n_per_format=2)]
        self._start = start
        if start is not None:
            self._schedules = [start, *(one for one in self._schedules if one != start)]

    def take_proposals(self, proposals: Sequence[Proposal]) -> None:
        """Put the learned model's proposals before those of the statistics, of which formats now come one by one."""
        proposed = [one.schedule for one in proposals]
        self._proposed = {id(one.schedule): one.guess for one in proposals}
        self._ratios |= {id(one.schedule): one.ratio for one in proposals}
        start = self._schedules[:1] if self._start is not None else []
        known = {one.format for one in proposed}  # cheap to compare, schedules are not
        rest = [one for one in self._schedules[len(start) :] if one.format not in known or one not in proposed]
        numbers: dict[Format, int] = {}
        formats = [numbers.setdefault(one.format, len(numbers)) for one in rest]
        self._schedules = [*start, *proposed, *(rest[at] for at in diverse(range(len(rest)), formats, n_per_format=1))]

    def note(self, predicted: Sequence[Proposal]) -> None:
        """Remember predictions of schedules that are not in the queue, whose objects the model keeps."""
        self._ratios |= {id(one.schedule): one.ratio for one in predicted}

    def for_any_threads(self, schedule: SuperSchedule) -> SuperSchedule:
        """`schedule` for as many threads as its caller allows, predicted alike: the pool sees how many pay
        (docs/design/thread-pool.md).
        """
        freed = replace(schedule, threads=0)
        self._ratios[id(freed)] = self._ratios[id(schedule)]
        return freed

    def prefer_built(
        self, is_built: Callable[[Schedule], bool], *, hopeless: float, n: int = 1,
        beside: Sequence[SuperSchedule] = (),
    ) -> None:  # fmt: skip
        """To the front: `n` kernels that need no compiler and are as good as the best predicted, nearly, or save GAIN.

        The schedule of a record stays before them, or in the place of a single one. Nothing moves where the best of
        the others is predicted to take more than `hopeless` of the default's time. `beside` comes next where values are
        numbered.
        """
        held = self._schedules[:1] if n > 1 and self._start is not None else []
        waiting = self._schedules[len(held) :]
        best = self.ratio_of(next(iter(waiting), None)) or 1.0
        if not waiting or waiting[0] is self._start or best > hopeless:
            return
        limit = max((1.0 + BUILT_TOLERANCE) * best, 1.0 - GAIN if n > 1 else 0.0)
        near = [one for one in waiting if (self.ratio_of(one) or 1.0) <= limit][:MAX_ASKED]
        ready = list(itertools.islice(filter(is_built, near), n))
        ready += [one for one in beside if one not in ready and any(it.format.values == DICTIONARY for it in ready)]
        self._schedules = [*held, *ready, *(one for one in waiting if one not in ready)]
