"""Accounts of problems over processes: what earlier processes spent on a problem, and what this one adds.

A short program earns too little time to pay for tuning. So what a process spends on a problem is added to a file in the
cache (`cache.accounts`) when it ends, and the next process counts it as its own. `first_look` reads and writes.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol

from autosparse._native import runtime_api
from autosparse.cache import stores, trust
from autosparse.cache.accounts.rows import MAX_BYTES, PlanNote, Spent

if TYPE_CHECKING:
    from autosparse.config import Options
    from autosparse.dispatch.protocols import Tuning
    from autosparse.operands.unfolding import AnyOperand

RUN_SHARE: Final = 0.1
"""Fraction of the lifetime of earlier processes that one process may spend on tuning that these have earned."""
REINVEST_SHARE: Final = 0.5
"""Fraction of the time saved in earlier processes that may be spent on tuning (`tuning.amortization` has the same)."""

ADVANCE: Final = 10.0
"""Multiple of rent, scaled by the expected gain, that steps without a compiler may overdraw it by (likewise)."""


class Spender(Protocol):
    """What an account asks of a state of dispatch."""

    n_calls: int
    product_ns: int
    tuned_ns: int
    live_tuner: Tuning | None

    def commit(self) -> None:
        """Bring the counts up to date."""


class ProblemAccount:
    """The account of one problem: what earlier processes spent, and what of this one's is not written yet."""

    __slots__ = (
        "_told_calls", "_told_ns", "_told_saved_s", "_told_tuning_s", "folder", "is_served", "is_finished", "key",
        "next_step_s", "plan", "recall_s", "root", "spent",
    )  # fmt: skip

    def __init__(
        self, folder: Path, root: Path, key: bytes, *, spent: Spent | None = None, plan: PlanNote | None = None,
        next_step_s: float = 0.0,
    ) -> None:  # fmt: skip
        self.folder, self.root, self.key = folder, root, key
        self.spent: Spent = spent or _NOTHING
        self.plan = plan
        self.next_step_s = next_step_s  # price of the step that the unfinished search of earlier processes waits for
        self.is_served = False  # by the plan that earlier processes left
        self.recall_s = 0.0  # spent in this process on letting a remembered plan serve
        self.is_finished = False  # a plan of the effort that is asked for serves, or says that none is faster
        self._told_calls = self._told_ns = 0
        self._told_tuning_s = self._told_saved_s = 0.0

    def limit_s(self) -> float:
        """Return the seconds of tuning, paid by earlier processes, that this one may spend beside its own savings."""
        return RUN_SHARE * self.spent.mean_life_s

    def expected_saved_s(self) -> float:
        """Return the seconds that the plan of earlier processes, if it serves, saves a process in the mean."""
        return self.spent.mean_saved_s if self.is_served else 0.0

    def earned_s(self, overhead: float) -> float:
        """Seconds of tuning that earlier processes have earned and not spent."""
        spent = self.spent
        return overhead * spent.product_s + REINVEST_SHARE * spent.saved_s - spent.tuning_s

    def collect(self, state: Spender) -> None:
        """Put aside what `state` has spent since the last call, to be written at exit."""
        state.commit()
        tuning_s, saved_s = self._spent_and_saved_s(state)
        more = Spent(
            n_calls=max(0, state.n_calls - self._told_calls), n_objects=int(self._told_calls == 0 < state.n_calls),
            product_s=max(0, state.product_ns - self._told_ns) * 1e-9,
            tuning_s=max(0.0, tuning_s - self._told_tuning_s), saved_s=max(0.0, saved_s - self._told_saved_s),
        )  # fmt: skip
        self._told(state)
        name = self.folder, self.key
        PENDING[name] = PENDING.get(name, _NOTHING) + more

    def tell(self, state: Spender) -> None:
        """Take for written what `state` has spent so far."""
        state.commit()
        self._told(state)

    def _told(self, state: Spender) -> None:
        self._told_calls, self._told_ns = state.n_calls, state.product_ns
        self._told_tuning_s, self._told_saved_s = self._spent_and_saved_s(state)

    def _spent_and_saved_s(self, state: Spender) -> tuple[float, float]:
        """Seconds that this process spent on tuning, and those that tuned kernels saved."""
        tuning_s, saved_s = state.live_tuner.spent_and_saved_s() if state.live_tuner is not None else (0.0, 0.0)
        if not saved_s:  # a tuner that has measured nothing: the remembered plan serves
            plan = self.plan
            is_measured = plan is not None and plan.measured_s and plan.default_s
            ratio = plan.default_s / plan.measured_s if plan is not None and is_measured else 1.0
            saved_s = state.tuned_ns * 1e-9 * max(0.0, ratio - 1.0)
        return tuning_s + self.recall_s, saved_s


_NOTHING: Final = Spent()
PENDING: Final[dict[tuple[Path, bytes], Spent]] = {}
"""What this process spent, by cache folder and key, and has not written yet."""
_roots: Final[dict[Path, Path | None]] = {}


def key_of(
    operand: AnyOperand, options: Options, *, operation: str, transposed: bool, columns: int, dtype: str
) -> bytes:
    """Return the name of a problem in the file of accounts, from samples of the structure: microseconds."""
    facts = (
        operation, getattr(operand, "mode", 0), transposed, max(0, columns - 1).bit_length(), dtype,
        options.threads or runtime_api.max_threads(), options.isa, options.storage, options.hybrid, options.compiler,
    )  # fmt: skip
    digest = hashlib.blake2b(operand.structure_sample(), digest_size=16)
    digest.update(repr(facts).encode())
    return digest.digest()


def place_of(options: Options) -> tuple[Path, Path] | None:
    """Return the cache folder and the root below it; None where options keep nothing, or the folder is not trusted."""
    folder = stores.folder_of(options) if options.cache_max_bytes >= 4 * MAX_BYTES else None
    if folder is None:
        return None
    if folder not in _roots:
        try:
            _roots[folder] = trust.root_of(folder)
        except OSError:
            _roots[folder] = None
    root = _roots[folder]
    return None if root is None else (folder, root)
