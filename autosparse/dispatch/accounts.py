"""Accounts of problems: the time that this process and earlier ones have spent on a problem.

A short program does not run long enough to pay for tuning. When a process ends, it adds its spending on a problem to a
file in the cache (`cache.accounts`), and the next process counts that as its own. `first_look` reads and writes the
file. For a problem that the file does not name, the modules of the cache are loaded at the end of the process.
"""

from __future__ import annotations

import os
import time
from operator import add
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol

from autosparse.configured import MAX_BYTES
from autosparse.dispatch import number

if TYPE_CHECKING:
    import numpy as np

    from autosparse.cache.accounts.rows import KernelNote, PlanNote, Spent
    from autosparse.config import Options
    from autosparse.dispatch.protocols import FirstRace, Tuning

RUN_SHARE: Final = number("amortisation", "share of a lifetime")
"""Maximum fraction of earlier processes' mean lifetime that one process may spend on tuning that they have earned."""
REINVEST_SHARE: Final = 0.5
"""Fraction of the time already saved, by this process and earlier ones, that may be spent on further tuning."""
ADVANCE: Final = number("amortisation", "advance")
"""Advance on steps without a compiler before any saving is measured, as a multiple of the overhead share.

It is multiplied by the expected gain. With the default overhead (0.04) it allows 0.52 times what tuning would have
saved on the products run so far.
"""
MAX_ADVANCE: Final = number("amortisation", "maximum advance")
"""Maximum advance, as a multiple of the overhead share, whatever gain is expected.

It bounds the total time of any number of products by 1.20 times the untuned total with the default overhead (0.04).
"""


class Spender(Protocol):
    """Protocol of a dispatch state: its problem, and the calls and times that an account reads."""

    options: Options
    operation: str
    transposed: bool
    n_dense_cols: int
    dtype: np.dtype[Any]
    n_calls: int
    product_ns: int
    tuned_ns: int
    live_tuner: Tuning | None
    early: FirstRace | None

    def commit(self) -> None:
        """Add the products that fast calls served to the counts."""


class ProblemAccount:
    """Account of one problem's calls and times: those of earlier processes, and those that this one has to record."""

    __slots__ = (
        "_root", "_spent", "_told_calls", "_told_ns", "_told_saved_s", "_told_tuning_s", "folder", "is_served",
        "is_finished", "kernel", "key", "next_step_s", "plan", "recall_s",
    )  # fmt: skip

    def __init__(
        self, folder: Path, root: Path | None, key: bytes, *, spent: Spent | None = None, plan: PlanNote | None = None,
        next_step_s: float = 0.0,
    ) -> None:  # fmt: skip
        """`root`: None if the folder's trust is not examined yet. `spent`: None if no process has left an account."""
        self.folder, self._root, self.key = folder, root, key
        self._spent = spent
        self.plan = plan
        self.kernel: KernelNote | None = None  # of the plan, if it reads slices
        self.next_step_s = next_step_s  # price of the next step of an unfinished search by earlier processes
        self.is_served = False  # whether the plan that earlier processes left serves
        self.recall_s = 0.0  # seconds that this process spent on recalling a remembered plan
        self.is_finished = False  # whether a plan of the requested effort serves, or says that none is faster
        self._told_calls = self._told_ns = 0
        self._told_tuning_s = self._told_saved_s = 0.0

    @property
    def root(self) -> Path:
        """Folder below the cache folder that holds the file. Raises PermissionError if it is not trusted."""
        if self._root is None:
            from autosparse.cache import trust

            self._root = trust.root_of(self.folder)
        return self._root

    @property
    def spent(self) -> Spent:
        """Totals of earlier processes."""
        if self._spent is None:
            from autosparse.cache.accounts.rows import Spent

            self._spent = Spent()
        return self._spent

    def forget_plan(self) -> None:
        """Remove the plan from the account and its file, so that later processes do not try it."""
        from autosparse.cache.accounts import ledger
        from autosparse.cache.accounts.rows import plan_row

        self.plan = None
        ledger.append(self.folder, [plan_row(self.key, None, process=ledger.token(), now=ledger.now())])

    @property
    def is_repaid(self) -> bool:
        """Return whether the winner of an earlier process's race serves: what it saves, it saved that process, too."""
        return self.is_served and self.plan is not None and self.plan.is_early

    def limit_s(self, overhead: float) -> float:
        """Return the seconds of tuning that this process may charge to earlier ones, a share of their mean lifetime.

        Where their plan serves, little is left to gain, and a process that spends what the plan saves takes longer than
        they did: the share is `overhead`.
        """
        mean_life_s = self._spent.mean_life_s if self._spent is not None else 0.0
        return (min(overhead, RUN_SHARE) if self.is_served else RUN_SHARE) * mean_life_s

    def earned_s(self, overhead: float) -> float:
        """Return the seconds of tuning that products of earlier processes have paid for and that are not spent yet.

        `overhead` is the share of product time that may be spent on tuning.
        """
        spent = self._spent
        if spent is None:
            return 0.0
        return overhead * spent.product_s + REINVEST_SHARE * spent.saved_s - spent.tuning_s

    def collect(self, state: Spender) -> None:
        """Add the calls and times of `state` since the last call to PENDING, which is written to the file at exit."""
        state.commit()
        tuning_s, saved_s = self._spent_and_saved_s(state)
        more = (
            max(0, state.n_calls - self._told_calls), int(self._told_calls == 0 < state.n_calls),
            max(0, state.product_ns - self._told_ns) * 1e-9,
            max(0.0, tuning_s - self._told_tuning_s), max(0.0, saved_s - self._told_saved_s),
        )  # fmt: skip
        self._told(state)
        name = self.folder, self.key
        PENDING[name] = tuple(map(add, PENDING.get(name, _NOTHING), more))
        if len(PENDING) > 2 * MAX_WRITTEN:  # a long process that meets ever new problems
            kept = longest(PENDING)
            for one in PENDING.copy():  # other threads add to it
                if one not in kept:
                    PENDING.pop(one, None)

    def tell(self, state: Spender) -> None:
        """Mark the calls and times of `state` so far as recorded, so that `collect` does not add them again."""
        state.commit()
        self._told(state)

    def _told(self, state: Spender) -> None:
        self._told_calls, self._told_ns = state.n_calls, state.product_ns
        self._told_tuning_s, self._told_saved_s = self._spent_and_saved_s(state)

    def _spent_and_saved_s(self, state: Spender) -> tuple[float, float]:
        """Return the seconds that this process spent on tuning, and those that tuned kernels saved."""
        tuning_s, saved_s, early = 0.0, 0.0, state.early
        if state.live_tuner is not None:
            tuning_s, saved_s = state.live_tuner.spent_and_saved_s()
        elif early is not None:
            tuning_s, saved_s = early.spent_s, early.saved_s(state.tuned_ns)
        if not saved_s:  # a tuner without measurements: the remembered plan serves
            plan = self.plan
            is_measured = plan is not None and plan.measured_s and plan.default_s
            ratio = plan.default_s / plan.measured_s if plan is not None and is_measured else 1.0
            saved_s = state.tuned_ns * 1e-9 * max(0.0, ratio - 1.0)
        return tuning_s + self.recall_s, saved_s


Amounts = tuple[float, ...]
"""Calls, matrix objects, and seconds of products, of tuning and saved: fields of `Spent`, which is loaded at exit."""
_NOTHING: Final = (0, 0, 0.0, 0.0, 0.0)
MAX_WRITTEN: Final = 256
"""Maximum number of problems whose calls a process records: those with the most product time."""
PENDING: Final[dict[tuple[Path, bytes], Amounts]] = {}
"""Spending of this process that is not written yet, by cache folder and key."""
_roots: Final[dict[Path, Path | None]] = {}


def longest(found: dict[tuple[Path, bytes], Amounts]) -> dict[tuple[Path, bytes], Amounts]:
    """Return at most `MAX_WRITTEN` items of `found`, those with the most product time."""
    return dict(sorted(found.copy().items(), key=lambda item: -item[1][2])[:MAX_WRITTEN])


def advance_share(gain: float) -> float:
    """Return the advance for an expected `gain`, as a multiple of the overhead share."""
    return min(MAX_ADVANCE, ADVANCE * gain)


def place_of(options: Options) -> tuple[Path, Path] | None:
    """Return the cache folder and its root, or None where options disable the cache or the folder is not trusted."""
    from autosparse.cache import stores, trust

    folder = stores.folder_of(options) if options.cache_max_bytes >= MAX_BYTES else None
    if folder is None:
        return None
    if folder not in _roots:
        try:
            _roots[folder] = trust.root_of(folder)
        except OSError:
            _roots[folder] = None
    root = _roots[folder]
    return None if root is None else (folder, root)


def expected_calls(options: Options, key: bytes) -> float | None:
    """Return the products per matrix object that earlier processes suggest for the problem `key`; None if unknown."""
    place = place_of(options)
    if place is None:
        return None
    from autosparse.cache.accounts import ledger

    found = ledger.read(place[1], key)
    return None if found is None else found.expected_calls


def process_age_s() -> float:
    """Return the age of this process in seconds; 0 where the system does not report it."""
    try:
        fields = Path("/proc/self/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
        return max(0.0, time.clock_gettime(time.CLOCK_BOOTTIME) - int(fields[19]) / os.sysconf("SC_CLK_TCK"))
    except (OSError, ValueError, IndexError, AttributeError):
        return 0.0
