"""Simulated trials: a schedule's time is a function, and a fake clock advances only when something runs."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from autosparse.tuner import Progress, Search
from autosparse.tuner.search.loop import Runner, perform
from autosparse.tuner.search.outcome import plan_of

from autosparse.core.plan import Plan
from autosparse.core.schedule import SuperSchedule
from autosparse.core.solver import Choice, choice_of


@dataclass
class FakeClock:
    """Clock whose seconds pass only when told."""

    now_s: float = 0.0

    def __call__(self) -> float:
        return self.now_s

    def spend(self, seconds: float) -> None:
        self.now_s += seconds


@dataclass
class Noise:
    """Multiplicative noise: every run takes (1 +

    heavy tail

    ) times its true time, and some runs ten times as much.
    """

    seed: int
    level: float = 0.05
    outliers: float = 0.05
    rng: random.Random = field(init=False)

    def __post_init__(self) -> None:
        self.rng = random.Random(self.seed)

    def factor(self) -> float:
        if self.rng.random() < self.outliers:
            return self.rng.uniform(2, 10)
        return 1.0 + abs(self.rng.gauss(0.0, self.level))


@dataclass
class FakeTrial:
    """Trial of a schedule whose product takes `true_s`, and whose build takes `build_true_s`."""

    schedule: SuperSchedule | None
    clock: FakeClock
    true_s: float
    build_true_s: float = 0.01
    pack_true_s: float = 0.001
    build_fails: bool = False
    pack_fails: bool = False
    noise: Noise | None = None
    failed: str | None = None
    packed_bytes: int = 0
    build_s: float = 0.0
    pack_s: float = 0.0
    n_runs: int = 0
    packed: bool = False
    lacks_memory: bool = False
    reads_live: bool = True
    looked_ns: int = 0
    service: None = None
    room: Callable[[FakeTrial], bool] = lambda trial: True

    @property
    def choice(self) -> Choice:
        return choice_of(self.schedule)

    @property
    def ready(self) -> bool:
        return self.failed is None and (self.schedule is None or self.packed)

    def build_price_s(self) -> float:
        return 0.0 if self.build_s or self.schedule is None else self.build_true_s

    def pack_price_s(self) -> float:
        return self.pack_true_s

    def build(self) -> None:
        self.clock.spend(self.build_true_s)
        self.build_s = self.build_true_s
        if self.build_fails:
            self.failed = "the compiler said no"

    def pack(self) -> None:
        assert self.failed is None, "packed after a failed build"
        self.clock.spend(self.pack_true_s)
        self.pack_s = self.pack_true_s
        self.lacks_memory = not self.room(self)
        if self.lacks_memory:
            return
        self.packed = True
        if self.pack_fails:
            self.failed, self.packed = "too large", False

    def drop(self) -> None:
        self.packed = False

    def run(self) -> None:
        assert self.schedule is None or self.packed, "run before it was packed, or after it was dropped"
        self.n_runs += 1
        self.clock.spend(self.true_s * (self.noise.factor() if self.noise else 1.0))


@dataclass
class FakeFactory:
    """Factory that makes trials and keeps a list of them."""

    clock: FakeClock
    time_of: Callable[[SuperSchedule | None], float]
    noise: Noise | None = None
    change: Callable[[FakeTrial], None] = lambda trial: None
    made: list[FakeTrial] = field(default_factory=list)

    def __call__(self, choice: Choice) -> FakeTrial:
        schedule: Any = choice.schedule
        trial = FakeTrial(schedule, self.clock, self.time_of(schedule), noise=self.noise)
        self.change(trial)
        self.made.append(trial)
        return trial

    def run_of(self, trial: object, turn: int = 0) -> Callable[[], object] | None:
        assert isinstance(trial, FakeTrial)
        return None if trial.failed else trial.run


def tune(
    search: Search, *, runner: Runner, budget_s: float, clock: Callable[[], float], progress: Progress | None = None
) -> Plan:
    """Run `search` for at most about `budget_s` seconds, and return its plan."""
    start_s = clock()
    perform(search.steps(), runner=runner, budget_s=budget_s, clock=clock, progress=progress)
    return plan_of(search, tune_s=clock() - start_s)
