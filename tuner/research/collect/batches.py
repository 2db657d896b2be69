"""Batched timing of many schedules of one problem, interleaved with the default kernel.

The default kernel runs in every round of every batch. The main result of a schedule is its *ratio* to the default
kernel in the same round. Ratios of different batches are comparable, unlike seconds on a busy machine. The load of
other processes is measured, so that times are taken or accepted only while the machine is quiet.
"""

from __future__ import annotations

import dataclasses
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from autosparse.tuner.research.collect.files import BATCH_COLUMNS, CENSORED, MEASURED, REFUSED, SCHEDULE_COLUMNS
from autosparse.tuner.search.race import MIN_SAMPLE_S, Race, RaceRule, timed_s
from autosparse.tuner.search.trial import Trial
from numpy.typing import NDArray

from autosparse.core.numbers import median
from autosparse.core.schedule import SuperSchedule
from autosparse.core.solver import DEFAULT, choice_of

if TYPE_CHECKING:
    from autosparse.tuning.trials.context import TuningContext

PROC_STAT: Final = Path("/proc/stat")
LOOK_S: Final = 0.3
"""Seconds that a load measurement takes, since the kernel counts in hundredths of a second."""


@dataclass(frozen=True, slots=True)
class Load:
    """Counters of one moment, in seconds: wall clock, busy time of all processors, busy time of this process."""

    wall_s: float
    busy_s: float
    own_s: float

    @classmethod
    def now(cls) -> Load | None:
        """Return the counters now; None where the system does not provide them."""
        try:
            words = PROC_STAT.read_text(encoding="ascii").split("\n", 1)[0].split()
            ticks = os.sysconf("SC_CLK_TCK")
        except (OSError, ValueError, AttributeError):
            return None
        # Fields: user nice system idle iowait irq softirq steal. All but idle and iowait are busy.
        counts = [int(word) for word in words[1:9]]
        times = os.times()
        return cls(time.monotonic(), (sum(counts) - counts[3] - counts[4]) / ticks, times.user + times.system)

    def others_since(self, before: Load) -> float:
        """Return the average number of processors that other processes kept busy since the counters `before`."""
        wall_s = max(1e-9, self.wall_s - before.wall_s)
        return max(0.0, (self.busy_s - before.busy_s) - (self.own_s - before.own_s)) / wall_s


def others_load(before: Load | None) -> float:
    """Return the average number of processors that other processes kept busy since `before`; nan if unknown."""
    now = Load.now()
    return float("nan") if before is None or now is None else now.others_since(before)


def seen_load(look_s: float) -> float:
    """Return the average number of processors that other processes keep busy in `look_s` seconds; nan if unknown."""
    before = Load.now()
    if before is not None:
        time.sleep(look_s)
    return others_load(before)


def wait_for_quiet(
    *, most_load: float, until_s: float, clock: Callable[[], float] = time.monotonic, look_s: float = LOOK_S
) -> bool:
    """Sleep until others keep fewer than `most_load` processors busy; return False if `until_s` is reached first."""
    while clock() < until_s:
        if not seen_load(look_s) >= most_load:  # nan: the load is unknown
            return True
    return False


BATCH_SIZE: Final = 6
"""Number of schedules raced at once, whose packed operands are in memory together."""
COLLECTING_RULE: Final = RaceRule(margin=0.0, min_rounds=7, max_rounds=7, first_cut=1, cut=6.0, final_cut=2.0)
"""Rules of a batch: every schedule runs once.

Those 6 times slower than the best leave first, later those twice as slow.
"""
MAX_ROUNDS: Final = 21
ROUNDS_S: Final = 0.15
"""Seconds per batch in which short products run more rounds, up to MAX_ROUNDS; medians of few are noisy."""
QUIET_LOAD: Final = 0.25
"""Maximum load of other processes, in processors, at which a batch is not repeated if `patience` permits repetition."""


@dataclass(frozen=True, slots=True)
class Timing:
    """Measured result of one schedule: status, ratio to the default kernel, seconds, and numbers of its batch."""

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
    """Runner of batches (races of a few schedules) on one timing context, with their results.

    `patience` is the maximum number of repetitions of a disturbed batch; `before_batch` may wait until the machine is
    quiet.
    """

    context: TuningContext
    rule: RaceRule = COLLECTING_RULE
    patience: int = 0
    before_batch: Callable[[], None] = lambda: None
    clock: Callable[[], float] = time.perf_counter
    timings: list[Timing] = field(default_factory=list)
    batches: list[dict[str, float]] = field(default_factory=list)

    def run(self, schedules: Sequence[SuperSchedule], *, until_s: float = float("inf")) -> None:
        """Time `schedules` batch by batch; stop between batches once the clock passes `until_s`."""
        for at in range(0, len(schedules), BATCH_SIZE):
            if self.clock() >= until_s:
                return
            self._batch([self.context(choice_of(one)) for one in schedules[at : at + BATCH_SIZE]])

    def best(self, n: int) -> list[SuperSchedule]:
        """Return the `n` schedules with the lowest ratios among those that raced to the end."""
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
            self._batch(lacks_memory)  # with the memory that the others have released
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
        default = self.context(DEFAULT)
        run = self.context.runner(default)
        if run is None or not able:
            return None
        entrants = [default, *able]
        race = Race(len(entrants), self._rule(timed_s(run, clock=self.clock) * len(entrants)))
        for at in race:
            # A new closure each time, since an old one continues with other addresses than entrants that ran less
            # often.
            run = self.context.runner(entrants[at], race.n_rounds)
            if run is None and at == 0:
                return None
            race.add(at, None if run is None else timed_s(run, clock=self.clock))
        return race, able

    def _rule(self, round_s: float) -> RaceRule:
        """Return the race rule with more rounds if a round, which takes `round_s` seconds, is short."""
        most = int(ROUNDS_S / max(2 * round_s, 2 * MIN_SAMPLE_S * (BATCH_SIZE + 1)))
        return dataclasses.replace(self.rule, max_rounds=max(self.rule.max_rounds, min(MAX_ROUNDS, most)))

    def _keep(self, race: Race, trials: Sequence[Trial], load: float) -> None:
        for at, trial in enumerate(trials, start=1):
            samples = race.samples_s[at]
            assert isinstance(trial.schedule, SuperSchedule)
            if not samples:  # it could run before the race but not in it
                self._refuse([trial])
                continue
            self.timings.append(
                Timing(
                    trial.schedule,
                    MEASURED if len(samples) == race.n_rounds >= self.rule.max_rounds else CENSORED,
                    len(self.batches),
                    ratio=race.ratio(at),
                    seconds=median(samples),
                    fastest_s=min(samples),
                    pack_s=trial.pack_s,
                    packed_bytes=trial.packed_bytes,
                    n_rounds=len(samples),
                )
            )
        self.batches.append(
            {
                "default_s": median(race.samples_s[0]),
                "default_fastest_s": min(race.samples_s[0]),
                "others_load": load,
            }
        )

    def columns(self) -> tuple[dict[str, NDArray[Any]], dict[str, NDArray[Any]]]:
        """Return the results as columns for `files.Measurements`: (of the schedules, of the batches)."""
        mine = {
            name: np.array([getattr(one, name) for one in self.timings], dtype)
            for name, dtype in SCHEDULE_COLUMNS.items()
        }
        return mine, {name: np.array([one[name] for one in self.batches], dt) for name, dt in BATCH_COLUMNS.items()}
