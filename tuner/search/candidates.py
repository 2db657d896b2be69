"""Queue of the candidates of one search, in the order in which they are tried."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import field, replace
from typing import Final

from autosparse.tuner.analytic.matmul import CostModel, Proposal, Proposals
from autosparse.tuner.search.style import diverse
from autosparse.tuner.space import spaces
from autosparse.tuner.space.template import Supports

from autosparse.core.composite import Schedule
from autosparse.core.formats import DICTIONARY, Format
from autosparse.core.problem import Problem
from autosparse.core.schedule import SuperSchedule
from autosparse.core.values import dataclass
from autosparse.targets.priors import number

BUILT_TOLERANCE: Final = number("candidates", "tolerance of available kernels")
"""Maximum relative excess over the best prediction at which an available kernel comes first; compiling is expensive."""
GAIN: Final = number("candidates", "gain of further available kernels")  # predicted, of the default time
REACH: Final = number("candidates", "reach of further available kernels")
"""Maximum predicted ratio to the default kernel's time at which a shipped kernel races before any is compiled."""
MAX_ASKED: Final = 6
"""Maximum number of candidates whose kernels are looked up."""


@dataclass(slots=True)
class Queue:
    """Schedules in the order in which a search tries them, with predicted times over the default kernel's."""

    schedules: list[SuperSchedule] = field(default_factory=list)
    ratios: dict[Schedule, float] = field(default_factory=dict)  # predicted ratios to the default kernel
    proposed: set[SuperSchedule] = field(default_factory=set)  # by the learned model
    preferred: list[SuperSchedule] = field(default_factory=list)  # kernels that need no compilation and come first
    proposed_by: str = ""  # model that searched for the proposals, and the cost of the search
    _start: SuperSchedule | None = None

    def rank(self, problem: Problem, model: CostModel, supports: Supports, *, start: SuperSchedule | None) -> None:
        """Fill the queue with the space, `start` first, then by predicted time; the best of every format come early."""
        entrants = spaces.entrants(problem, supports)
        default_s, *times = model.rank(problem, entrants.schedules)
        schedules = [one for one in entrants.schedules if one is not None]
        ratios = [time_s / default_s if default_s > 0 else 1.0 for time_s in times]
        order = sorted(range(len(schedules)), key=ratios.__getitem__)
        self.ratios = {schedules[at]: ratios[at] for at in order}
        self.schedules = [schedules[at] for at in diverse(order, entrants.format_of, n_per_format=2)]
        self._start = start
        if start is not None:
            self.schedules = [start, *(one for one in self.schedules if one != start)]

    def take_proposals(self, proposals: Sequence[Proposal]) -> None:
        """Put the learned model's proposals first; the remaining schedules then alternate between formats."""
        proposed = [one.schedule for one in proposals]
        self.proposed = {one.schedule for one in proposals}
        self.proposed_by = proposals.account if isinstance(proposals, Proposals) else ""
        self.ratios |= {one.schedule: one.ratio for one in proposals}
        start = self.schedules[:1] if self._start is not None else []
        known = {one.format for one in proposed}  # comparing formats is cheap, comparing schedules is not
        rest = [one for one in self.schedules[len(start) :] if one.format not in known or one not in proposed]
        numbers: dict[Format, int] = {}
        formats = [numbers.setdefault(one.format, len(numbers)) for one in rest]
        self.schedules = [*start, *proposed, *(rest[at] for at in diverse(range(len(rest)), formats, n_per_format=1))]

    def for_any_threads(self, schedule: SuperSchedule) -> SuperSchedule:
        """Return `schedule` with any thread count (the thread pool decides) and the same prediction."""
        freed = replace(schedule, threads=0)
        self.ratios[freed] = self.ratios[schedule]
        return freed

    def prefer_built(
        self, is_built: Callable[[Schedule], bool], *, hopeless: float, n: int = 1,
        beside: Sequence[SuperSchedule] = (),
    ) -> None:  # fmt: skip
        """Move up to `n` kernels that need no compilation to the front, if they are nearly the best or save GAIN.

        The schedule of a record stays in front of them, or takes the place of a single one. Nothing moves when the best
        of the others is predicted to exceed `hopeless` times the default time. Those of `beside` follow that are
        predicted within REACH, and those with dictionary-encoded values where a moved kernel has them.
        """
        held = self.schedules[:1] if n > 1 and self._start is not None else []
        waiting = self.schedules[len(held) :]
        if not waiting or waiting[0] is self._start or (best := self.ratios.get(waiting[0], 1.0)) > hopeless:
            return
        limit = max((1.0 + BUILT_TOLERANCE) * best, 1.0 - GAIN if n > 1 else 0.0)
        near = [one for one in waiting if self.ratios.get(one, 1.0) <= limit][:MAX_ASKED]
        ready = list(itertools.islice(filter(is_built, near), n))
        has_encoded = any(one.format.values == DICTIONARY for one in ready)
        within = {one for one in beside if self.ratios.get(one, 0.0 if has_encoded else math.inf) <= REACH}
        self.preferred = ready = [*ready, *(one for one in beside if one in within and one not in ready)]
        self.schedules = [*held, *ready, *(one for one in waiting if one not in ready)]
