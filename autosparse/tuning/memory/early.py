"""First race of a problem: the default kernel against one kernel that was compiled at installation.

It imports what recalling a plan imports and not what a search needs, so that it pays after a tenth of a second of
products. The candidate follows from the lengths of the rows alone; a later search has more candidates.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

from autosparse import forking
from autosparse._native.ir.spec import KernelSpec
from autosparse._native.kernels.shipped import shipped_kernel
from autosparse._native.kernels.shipped_specs import HIGH_SLICES, SLICE_PREFETCH, SLICE_UNROLL
from autosparse.core.formats import DICTIONARY, Format
from autosparse.core.numbers import median
from autosparse.core.schedule import SuperSchedule
from autosparse.core.solver import choice_of
from autosparse.errors import TUNING_FAILURES
from autosparse.isa import ISAS
from autosparse.log import event
from autosparse.operands.csr import Operand
from autosparse.ops import names
from autosparse.scalar import REAL
from autosparse.targets.priors import number
from autosparse.tuning.memory.light_bench import LightBench
from autosparse.tuning.memory.row_padding import slices
from autosparse.tuning.problems import target_of
from autosparse.tuning.trials.kernel_trial import KernelTrial
from autosparse.tuning.trials.service import Service
from autosparse.tuning.trials.specs import spec_of

if TYPE_CHECKING:
    from autosparse.core.plan import Plan
    from autosparse.dispatch.state import DispatchState
    from autosparse.operands.unfolding import AnyOperand

MARGIN: Final = number("early race", "margin")
"""Minimum gain by which the candidate wins, as a fraction of the default kernel's time."""
HOPELESS: Final = number("early race", "hopeless")
"""Ratio of the shortest times above which the candidate loses after LOST_ROUNDS."""
LOST_ROUNDS: Final = 2
"""Minimum number of rounds after which the candidate may lose."""
WON_ROUNDS: Final = 5
"""Minimum number of rounds after which the candidate may win."""
MAX_ROUNDS: Final = 9
"""Maximum number of rounds, each with one counted product of either kernel and one uncounted product before it."""
MAX_OTHERS: Final = 8
"""Number of successive products without a sample, as of another kernel, after which the race ends."""


def verdict(pairs: Sequence[tuple[float, float]]) -> bool | None:
    """Return whether the candidate won the rounds `pairs` (seconds of default kernel, candidate); None: undecided."""
    if len(pairs) < LOST_ROUNDS:
        return None
    if min(mine for _, mine in pairs) > HOPELESS * min(default for default, _ in pairs):
        return False
    ratio, n_won = median(mine / default for default, mine in pairs), sum(mine < default for default, mine in pairs)
    is_ahead = ratio <= 1.0 - MARGIN and 4 * n_won >= 3 * len(pairs)
    if len(pairs) >= WON_ROUNDS and is_ahead:
        return True
    return False if len(pairs) >= MAX_ROUNDS else None


def candidate(indptr: Any, value_bytes: int, isa: str, *, has_few_values: bool) -> SuperSchedule | None:
    """Return the schedule of a shipped kernel that suits rows of these lengths; None if no slices do."""
    lanes = ISAS[isa].vector_bytes // value_bytes
    if (found := slices(indptr, lanes)) is None:
        return None
    rows, sigma = found
    if sigma == 1 and has_few_values:
        return HIGH_SLICES
    order = f" | sigma={sigma}" if sigma > 1 else ""
    return SuperSchedule(
        operation=names.MATMUL, format=Format.parse(f"i1:U,k1:D,i0:U | i={rows}{order} | bits=16"),
        loop_order=("i1", "k1", "i0"), unroll=SLICE_UNROLL if rows == lanes else 1, prefetch=SLICE_PREFETCH,
    )  # fmt: skip


class EarlyRace:
    """Race of one shipped kernel with the default kernel on the first products of a problem."""

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self.spent_s = 0.0  # seconds of importing, packing, comparing, and of slower products
        self.ratio = 1.0  # default kernel's time over that of the kernel that serves
        self.default_s = 0.0  # seconds of one product by the default kernel
        self.schedule: SuperSchedule | None = None
        self.trial: KernelTrial | None = None  # the candidate while it races
        self.is_won = False
        self._clock = clock
        self._pairs: list[tuple[float, float]] = []
        self._round: dict[bool, float] = {}  # is candidate -> seconds of this round
        self._is_warm = False
        self._n_others = 0
        self._lock = forking.lock()

    @property
    def is_racing(self) -> bool:
        """Return whether products are samples now."""
        return self.trial is not None

    def begin(self, state: DispatchState, operand: AnyOperand, started_s: float) -> None:
        """Prepare a candidate since `started_s`, and let the next products race; a failure ends the race."""
        try:
            trial = self._ready(state, operand)
        except TUNING_FAILURES as err:
            event("fallback", f"a shipped kernel is not used: {type(err).__name__}: {err}")
            trial = None
        self.spent_s += self._clock() - started_s
        self.trial = trial
        if trial is not None:
            self._next(state)

    def _ready(self, state: DispatchState, operand: AnyOperand) -> KernelTrial | None:
        target = target_of(state.options)
        if not ISAS[target.isa].is_shipped or state.dtype.name not in REAL or not isinstance(operand, Operand):
            return None
        bench = LightBench(state, operand)
        found = candidate(
            operand.indptr, state.dtype.itemsize, target.isa, has_few_values=bench.problem.storage == DICTIONARY
        )
        if found is None:
            return None
        trial, spec = KernelTrial(choice_of(found), bench), spec_of(bench.problem, found)
        assert isinstance(spec, KernelSpec)
        kernel = shipped_kernel(spec, state.options.compiler) if trial.fits() else None
        if kernel is None:
            return None
        trial.kernel, self.schedule = kernel, found
        trial.pack()  # compares its result with the default kernel's
        return trial if trial.ready else None

    def look(self, state: DispatchState, operand: AnyOperand, served_by: object, took_s: float) -> None:
        """Take a product of `took_s` by the kernel `served_by` as a sample, and choose the next product's kernel."""
        if not self._lock.acquire(blocking=False):
            return
        try:
            trial = self.trial
            if trial is None:
                return
            is_wanted = served_by is state.serving and (served_by is None or served_by is trial)
            self._n_others = 0 if is_wanted else self._n_others + 1
            if is_wanted and self._is_warm:
                self._add(served_by is trial, took_s)
                self._is_warm = False
            else:
                self._is_warm = is_wanted
            won = verdict(self._pairs)
            if not trial.ready or self._n_others >= MAX_OTHERS:
                won = False
            if won is None:
                self._next(state)
            else:
                self._end(state, operand, trial, is_won=won)
        finally:
            self._lock.release()

    def _add(self, is_candidate: bool, took_s: float) -> None:
        self._round[is_candidate] = max(took_s, 1e-9)
        if len(self._round) == 2:
            default_s, mine_s = self._round[False], self._round[True]
            self._pairs.append((default_s, mine_s))
            # The uncounted product before each sample takes as long as the sample.
            self.spent_s += 2.0 * max(0.0, mine_s - default_s)
            self._round = {}

    def _next(self, state: DispatchState) -> None:
        """Set the kernel of the next product: rounds begin with the default kernel and the candidate in turn."""
        is_candidate_first = len(self._pairs) % 2 == 1
        is_candidate = is_candidate_first != bool(self._round)
        state.serving = self.trial if is_candidate else None
        state.next_look_ns = state.product_ns
        state.commit()

    def _end(self, state: DispatchState, operand: AnyOperand, trial: KernelTrial, *, is_won: bool) -> None:
        self.trial, self.is_won = None, is_won
        if is_won:
            self.ratio = median(default / mine for default, mine in self._pairs)
            self.default_s = median(default for default, _ in self._pairs)
            Service.of(trial, None, state, operand, self.default_s * (1.0 - 1.0 / self.ratio))
            state.serving = state.recalled = trial
            event("plan", "early", schedule=trial.schedule.to_json(), ratio=self.ratio)
        else:
            state.serving = None
            trial.drop()

    def retire(self, state: DispatchState) -> None:
        """End the race or the service of its winner, so that a search has the memory of its packed copy."""
        trial: Any = state.recalled if self.trial is None and self.is_won else self.trial  # Any: it can drop its copy
        self.trial, self.is_won, state.recalled = None, False, None
        if trial is not None:
            state.serving = None if state.serving is trial else state.serving
            trial.drop()

    def saved_s(self, tuned_ns: float) -> float:
        """Return the seconds that products of `tuned_ns` by the winner saved."""
        return tuned_ns * 1e-9 * (self.ratio - 1.0) if self.is_won else 0.0

    def plan(self) -> Plan:
        """Return the plan of the winner."""
        from autosparse.core.plan import Plan

        assert self.schedule
        return Plan(
            choice=choice_of(self.schedule),
            why=f"fastest of 1 shipped kernel, {self.ratio:.2f}x the default kernel; a search has not begun",
            default_s=self.default_s, measured_s=self.default_s / self.ratio,
        )  # fmt: skip

    def forget_threads(self) -> None:
        """Reset the lock in a forked child."""
        self._lock = forking.lock()
