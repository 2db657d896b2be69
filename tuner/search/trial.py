"""Trial: one schedule on its way to a kernel that runs. The search proposes steps; `loop.StepLoop` does them.

The tuner knows neither compiler nor cache: `autosparse.tuning.trials` implements the protocol with real kernels, tests
with arithmetic.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from typing import Protocol, TypeAlias

from autosparse.core.composite import Schedule
from autosparse.core.values import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """Something to be done once: `do()` never raises for a failure that tuning may meet (the trial notes it)."""

    kind: str  # "hash" | "recall" | "rank" | "build" | "pack" | "save"
    price_s: float  # what it is expected to take
    path_price_s: float  # ... and all that is needed until a product can profit from it
    do: Callable[[], None]
    what: str = ""
    is_optional: bool = False  # the search goes on without it when it costs more than there is
    in_advance: bool = False  # no compiler is needed from here to the first result
    may_hang: bool = False  # a program of others is waited for


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """Run one product with `trial` and send its seconds back (None: no sample was to be had)."""

    trial: Trial
    price_s: float  # expected excess over the best known kernel
    turn: int = 0  # the round of the race: all entrants of one round meet the same memory
    path_price_s: float = 0.0
    in_advance: bool = False  # of the first candidate
    is_check: bool = False  # of a plan in service, at whatever width products have
    warmup_s: float = 0.0  # of products by the trial before the one that counts; only live tuning waits for them


@dataclass(frozen=True, slots=True, kw_only=True)
class Pause:
    """Nothing to do until this many more products were run; only live tuning meets it."""

    n_calls: int


Step: TypeAlias = Work | Sample | Pause
Steps: TypeAlias = Generator[Step, "float | None", None]


class Trial(Protocol):
    """One schedule (None: the default kernel) for one problem."""

    @property
    def schedule(self) -> Schedule | None:
        """What is tried."""

    @property
    def failed(self) -> str | None:
        """Why it cannot run, once that is known."""

    @property
    def lacks_memory(self) -> bool:
        """Whether packing failed only for want of room beside other packed copies of the operand."""

    @property
    def ready(self) -> bool:
        """Whether it can run now."""

    @property
    def packed_bytes(self) -> int:
        """Memory of its packed operand (a bound, known before packing); 0 when it reads the user's arrays."""

    @property
    def build_s(self) -> float:
        """Seconds that building took (0 before, and when the kernel was in the cache)."""

    @property
    def pack_s(self) -> float:
        """Seconds that packing took."""

    def build_price_s(self) -> float:
        """Expected seconds of `build`."""

    def pack_price_s(self) -> float:
        """Expected seconds of `pack`."""

    def build(self) -> None:
        """Make the kernel; on failure set `failed`."""

    def pack(self) -> None:
        """Convert the operand and bind it to the kernel; on failure set `failed`, or `lacks_memory` (then try
        again).
        """

    def drop(self) -> None:
        """Release the packed operand."""


class TrialFactory(Protocol):
    """Makes trials of one problem."""

    def __call__(self, schedule: Schedule | None) -> Trial:
        """A trial of `schedule`, nothing built yet."""


class Divider(Protocol):
    """Where composites come from."""

    @property
    def price_s(self) -> float:
        """Seconds without which a call is of no use."""

    def __call__(self) -> Sequence[Schedule]:
        """Composites with the best schedule found for each part; second a single format that they must beat."""

    def has_time(self) -> bool:
        """Whether a further composite may race."""


def name_of(trial: Trial) -> str:
    """The format of its schedule, in words."""
    return str(trial.schedule.format) if trial.schedule else "default kernel"
