"""Heats: times of many schedules of one problem, a few at a time, interleaved with the default kernel.

The default kernel runs in every round of every heat. What is kept of a schedule is first of all its *ratio* to the
default kernel in the same round: ratios of different heats compare where seconds of a busy machine do not.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

import numpy as np
from autosparse.tuner.collect.duty import Load, others_load
from autosparse.tuner.collect.files import BATCH_COLUMNS, CENSORED, MEASURED, REFUSED, SCHEDULE_COLUMNS
from autosparse.tuner.search.race import MIN_SAMPLE_S, Race, RaceRule, timed_s
from autosparse.tuner.search.trial import Trial
from numpy.typing import NDArray

from autosparse.core.problem import Problem
from autosparse.core.schedule import SuperSchedule

BATCH_SIZE: Final = 6
"""Schedules raced at once: their packed operands are in memory together."""
COLLECTING_RULE: Final = RaceRule(margin=0.0, min_rounds=7, max_rounds=7, first_cut=1, cut=6.0, final_cut=2.0)
"""Everybody runs once. Who is 6 times slower than the best then leaves, later on who is twice as slow."""
MAX_ROUNDS: Final = 21
ROUNDS_S: Final = 0.15
"""Of a heat: short products take more rounds in this time, up to MAX_ROUNDS; medians of few are mostly noise."""
QUIET_LOAD: Final = 0.25
"""Processors that others may keep busy without a heat being run again, when `patience` asks for that."""


class TimingContext(Protocol):
    """Where schedules of one problem become kernels that run: `tuning.trials.context.TuningContext`, or arithmetic."""

    @property
    def problem(self) -> Problem:
        """What is computed."""

    def __call__(self, schedule: SuperSchedule | None) -> Trial:
        """A trial, nothing built yet."""

    def supports(self, operation: str, schedule: SuperSchedule) -> str | None:
        """Why no kernel can be made of it, or None."""

    def build(self, trials: Sequence[Trial]) -> None:
        """Make their kernels, several at once."""

    def runner(self, trial: Trial, turn: int = 0) -> Callable[[], object] | None:
        """One product to time; None when this trial cannot run, or would never end.

        Who is given one `turn` meets the same memory.
        """

    def proposed(self, n: int) -> Sequence[SuperSchedule]:
        """The `n` schedules that the learned model of this machine likes best; none where there is no model."""


@dataclass(frozen=True, slots=True)
class Timing:
    """What one schedule came to."""

    schedule: SuperSchedule
    status: int
    heat: int
    ratio: float = float("nan")
    seconds: float = float("nan")
    fastest_s: float = float("nan")
    pack_s: float = 0.0
    packed_bytes: int = 0
    n_rounds: int = 0


@dataclass(slots=True)
class Batches:
    """Runs heats on one timing context and keeps what they found.

    `patience`: how often a heat is run again because others disturbed it; `before_batch` may wait for quiet.
    """

    context: TimingContext
    rule: RaceRule = COLLECTING_RULE
    patience: int = 0
    before_batch: Callable[[], None] = lambda: None
    clock: Callable[[], float] = time.perf_counter
    timings: list[Timing] = field(default_factory=list)
    batches: list[dict[str, float]] = field(default_factory=list)

    def run(self, schedules: Sequence[SuperSchedule], *, until_s: float = float("inf")) -> None:
        """Time `schedules` heat by heat; stops between heats once the clock passes `until_s`."""
        for at in range(0, len(schedules), BATCH_SIZE):
            if self.clock() >= until_s:
                return
            self._batch([self.context(one) for one in schedules[at : at + BATCH_SIZE]])

    def best(self, n: int) -> list[SuperSchedule]:
        """The `n` fastest of those that raced to the end."""
        whole = [one for one in self.timings if one.status == MEASURED]
        return [one.schedule for one in sorted(whole, key=lambda one: one.ratio)[:n]]

    def _batch(self, trials: list[Trial]) -> None:
        self.context.build(trials)
        try:
            lacks_memory = []
            for trial in trials:
                if trial.failed is None:
                    trial.pack()
                if trial.lacks_memory:
                    lacks_memory.append(trial)
            ready = [trial for trial in trials if trial.ready]
            self._refuse([trial for trial in trials if not trial.ready and trial not in lacks_memory])
            self._repeat_until_quiet(ready)
        finally:
            for trial in trials:
                trial.drop()
        if lacks_memory and len(lacks_memory) < len(trials):
            self._batch(lacks_memory)  # with the room that the others have left
        else:
            self._refuse(lacks_memory)

    def _refuse(self, trials: Sequence[Trial]) -> None:
        self.timings += [
            Timing(trial.schedule, REFUSED, len(self.batches), packed_bytes=trial.packed_bytes)
            for trial in trials
            if isinstance(trial.schedule, SuperSchedule)
        ]

    def _repeat_until_quiet(self, trials: Sequence[Trial]) -> None:
        for attempt in range(self.patience + 1):
            self.before_batch()
            before = Load.now()
            outcome = self._race(trials)
            if outcome is None:
                return
            race, raced = outcome
            load = others_load(before)
            if not load > QUIET_LOAD or attempt == self.patience:
                self._keep(race, raced, load)
                return

    def _race(self, trials: Sequence[Trial]) -> tuple[Race, list[Trial]] | None:
        able = [trial for trial in trials if self.context.runner(trial) is not None]
        self._refuse([trial for trial in trials if trial not in able])
        default = self.context(None)
        run = self.context.runner(default)
        if run is None or not able:
            return None
        entrants = [default, *able]
        race = Race(len(entrants), self._rule(timed_s(run, clock=self.clock) * len(entrants)))
        while (at := race.next_entrant()) is not None:
            # A new one each time: an old one goes on with other memory than those that ran less often.
            run = self.context.runner(entrants[at], race.n_rounds)
            if run is not None:
                race.add(timed_s(run, clock=self.clock))
            elif at == 0:
                return None
            else:
                race.disqualify(at)
        return race, able

    def _rule(self, round_s: float) -> RaceRule:
        """With more rounds where one takes `round_s` or, with samples of that length, not much."""
        most = int(ROUNDS_S / max(2 * round_s, 2 * MIN_SAMPLE_S * (BATCH_SIZE + 1)))
        return dataclasses.replace(self.rule, max_rounds=max(self.rule.max_rounds, min(MAX_ROUNDS, most)))

    def _keep(self, race: Race, trials: Sequence[Trial], load: float) -> None:
        for at, trial in enumerate(trials, start=1):
            samples = race.samples_s[at]
            assert isinstance(trial.schedule, SuperSchedule)
            if not samples:  # it could run before the race and cannot any more
                self._refuse([trial])
                continue
            self.timings.append(
                Timing(
                    trial.schedule,
                    MEASURED if len(samples) == race.n_rounds >= self.rule.max_rounds else CENSORED,
                    len(self.batches),
                    ratio=race.ratio(at),
                    seconds=race.typical_s(at) or float("nan"),
                    fastest_s=min(samples),
                    pack_s=trial.pack_s,
                    packed_bytes=trial.packed_bytes,
                    n_rounds=len(samples),
                )
            )
        self.batches.append(
            {
                "default_s": race.typical_s(0) or float("nan"),
                "default_fastest_s": min(race.samples_s[0]),
                "others_load": load,
            }
        )

    def columns(self) -> tuple[dict[str, NDArray[Any]], dict[str, NDArray[Any]]]:
        """(columns of the schedules, columns of the heats), as `files.Measurements` has them."""
        mine = {
            name: np.array([getattr(one, name) for one in self.timings], dtype)
            for name, dtype in SCHEDULE_COLUMNS.items()
        }
        return mine, {name: np.array([one[name] for one in self.batches], dt) for name, dt in BATCH_COLUMNS.items()}
