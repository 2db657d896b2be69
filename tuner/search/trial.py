"""Protocol of trials and steps: a trial is one choice on its way to a kernel that runs.

The search yields steps, and `loop.StepLoop` performs them. The tuner imports neither compiler nor cache:
`autosparse.tuning.trials` implements the protocol with real kernels, and tests implement it with arithmetic.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Protocol, TypeAlias

from autosparse.core.composite import Schedule
from autosparse.core.solver import Choice
from autosparse.core.values import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """Step of a search that is performed once by `do()`, which records expected failures in the trial."""

    kind: str  # "hash" | "recall" | "rank" | "build" | "pack" | "save"
    price_s: float  # expected seconds
    do: Callable[[], object]
    units: float = 0.0  # units of work by which a run updates the price of its kind; 0: `do` updates prices itself
    path_price_s: float = 0.0  # expected seconds of this and all further steps until a product can benefit, if more
    what: str = ""
    is_optional: bool = False  # the search continues without the step when it exceeds the budget
    in_advance: bool = False  # no compilation is needed from here to the first result
    may_hang: bool = False  # waits for an external program


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """Step of a search that times one product with `trial`; the answer is its seconds, None without a sample.

    The product before it must be one by `trial`, too: users' programs run one kernel repeatedly, which then finds its
    own data in the caches. In a race of single products in turn, the kernel with fewer bytes seemed faster.
    """

    trial: Trial
    price_s: float  # expected excess over the best known kernel
    turn: int = 0  # round of the race; equal rounds use equal memory addresses
    path_price_s: float = 0.0
    in_advance: bool = False  # set for the first candidate
    is_check: bool = False  # re-times a plan in use, at the products' own width
    warmup_s: float = 0.0  # seconds of products with the trial before the counted one; only live tuning waits for them


@dataclass(frozen=True, slots=True, kw_only=True)
class Pause:
    """A step without work until `n_calls` more products have run; only live tuning performs it."""

    n_calls: int


Step: TypeAlias = Work | Sample | Pause
Steps: TypeAlias = Generator[Step, "float | None", None]


class Trial(Protocol):
    """Interface of one choice of a solver under test for one problem."""

    @property
    def choice(self) -> Choice:
        """Return the choice, which identifies the trial among the candidates."""

    @property
    def schedule(self) -> Schedule | None:
        """Return the schedule; None for the default solver and for solvers whose knobs are no schedule."""

    @property
    def failed(self) -> str | None:
        """Return why the trial cannot run, or None."""

    @property
    def lacks_memory(self) -> bool:
        """Return whether packing failed only because other packed copies of the operand take the memory."""

    @property
    def ready(self) -> bool:
        """Return whether the trial can run now."""

    @property
    def reads_live(self) -> bool:
        """Return whether the kernel reads the user's own arrays, as the default kernel does."""

    @property
    def packed_bytes(self) -> int:
        """Return the bytes of the packed operand (an upper bound before packing); 0 when it reads the user's arrays."""

    @property
    def build_s(self) -> float:
        """Return the seconds that building took; 0 before building, and when the kernel came from the cache."""

    @property
    def pack_s(self) -> float:
        """Return the seconds that packing took."""

    def build_price_s(self) -> float:
        """Return the expected seconds of `build`."""

    def pack_price_s(self) -> float:
        """Return the expected seconds of `pack`."""

    def build(self) -> None:
        """Make the kernel; on failure set `failed`."""

    def pack(self) -> None:
        """Convert the operand and bind it to the kernel; on failure set `failed`, or `lacks_memory` to try again."""

    def drop(self) -> None:
        """Release the packed operand."""
