"""First race of a problem: the default kernel against one kernel that was compiled at installation.

It imports what recalling a plan imports and not what a search needs, so that it pays after a tenth of a second of
products. The candidate follows from the lengths of the rows alone; a later search has more candidates.
"""

from __future__ import annotations

import time
import weakref
from collections.abc import Callable, Sequence
from math import inf
from typing import TYPE_CHECKING, Any, Final

from autosparse import forking
from autosparse._native import memory
from autosparse._native.kernels import slice_kernel
from autosparse._native.kernels.slice_kernel import SliceKernel
from autosparse._native.kernels.slice_names import HIGH_SLICE, MAX_EXTENT, SHARED, Blocks, Slices
from autosparse.core.numbers import median
from autosparse.dispatch import number
from autosparse.errors import TUNING_FAILURES
from autosparse.isa import ISAS, Isa
from autosparse.log import event
from autosparse.operands.csr import Operand, expected_look_s
from autosparse.scalar import GENERATED
from autosparse.tuning.memory import slice_trial
from autosparse.tuning.memory.row_padding import BLOCK_BITS, IN_BLOCKS, fits_high
from autosparse.tuning.memory.slice_trial import SliceTrial

if TYPE_CHECKING:
    from autosparse.cache.accounts.rows import PlanNote
    from autosparse.core.plan import Plan
    from autosparse.dispatch.state import DispatchState
    from autosparse.operands.unfolding import AnyOperand

MARGIN: Final = number("early race", "margin")
"""Minimum gain by which the candidate wins, as a fraction of the default kernel's time."""
HOPELESS: Final = number("early race", "hopeless")
"""Ratio of times above which the candidate loses, in all rounds so far, after LOST_ROUNDS."""
SETTLED: Final = number("early race", "settled")
"""Fraction of its time in the round before below which a candidate is still warming up, and does not lose yet."""
LOST_ROUNDS: Final = 2
"""Minimum number of rounds after which the candidate may lose."""
WON_ROUNDS: Final = 5
"""Minimum number of rounds after which the candidate may win."""
MAX_ROUNDS: Final = 9
"""Maximum number of rounds, each with one counted product of either kernel and one uncounted product before it."""
CHECK_AFTER: Final = 256
"""Number of products after a won race from which on the winner races once more; timings drift, and noise may win."""
PAID_BACK: Final = 1.0
"""Seconds saved by a winner, as a multiple of those spent on its race, from which on it is noted at exit.

A note takes 3 ms: the modules that write it, a hash of the pattern, a stamp of the machine.
"""
NOTED_AFTER: Final = number("early race", "noted after")
"""The same multiple from which on it is noted at once: many processes never reach their exit."""
SHORT_S: Final = number("early race", "short product s")
"""Seconds of a product below which a loser races again, MAX_RACES times, unless it took AS_THREADS times as long."""
AS_THREADS: Final = 2.0
MAX_RACES: Final = 3
MAX_OTHERS: Final = 8
"""Number of successive products without a sample, as of another kernel, after which the race ends."""


def verdict(pairs: Sequence[tuple[float, float]]) -> bool | None:
    """Return whether the candidate won the rounds `pairs` (seconds of default kernel, candidate); None: undecided."""
    if len(pairs) < LOST_ROUNDS:
        return None
    is_settled = pairs[-1][1] >= SETTLED * pairs[-2][1]
    if is_settled and all(mine > HOPELESS * default for default, mine in pairs):
        return False
    n_won = sum(mine < default for default, mine in pairs)
    if len(pairs) >= WON_ROUNDS and is_ahead(pairs) and 4 * n_won >= 3 * len(pairs):
        return True
    return False if len(pairs) >= MAX_ROUNDS else None


def is_ahead(pairs: Sequence[tuple[float, float]]) -> bool:
    """Return whether the candidate's median time is shorter than the default kernel's by MARGIN."""
    return median(mine / default for default, mine in pairs) <= 1.0 - MARGIN


def candidate(shape: tuple[int, int], values: Any, isa: str) -> Slices:
    """Return the shipped slices of `shape` (rows, sigma), or those for few distinct values and rows of even lengths."""
    if shape[1] > 1 or not ISAS[isa].has_table_permutation:
        return Slices(*shape)
    from autosparse._native.storage.dictionary import has_few_kinds  # loaded for rows of even lengths alone

    return Slices(HIGH_SLICE, is_encoded=True) if has_few_kinds(values) else Slices(*shape)


def _shared(state: DispatchState, operand: Operand) -> list[Blocks]:
    """Return blocks of three rows, the widest tile first of those of which a product fills more than half."""
    return [one for one in SHARED if one.tile < 2 * state.n_dense_cols and operand.n_minor <= 1 << one.bits]


class EarlyRace:
    """Race of one shipped kernel with the default kernel on the first products of a problem."""

    def __init__(
        self, clock: Callable[[], float] = time.perf_counter, *,
        shape: tuple[int, int] | None = None, only_encoded: bool = False,
    ) -> None:  # fmt: skip
        self._shape = shape  # rows of a slice and sigma, where they are known
        self._only_encoded = only_encoded  # whether slices with dictionary-encoded values alone may race
        self.spent_s = 0.0  # seconds of importing, packing, comparing, and of slower products
        self.ratio = 1.0  # default kernel's time over that of the kernel that serves
        self.default_s = 0.0  # seconds of one product by the default kernel
        self.has_candidate = False
        self.trial: Any = None  # the candidate while it races; Any: a SliceTrial, or the KernelTrial of a winner
        self.is_won = False
        self.check_ns = inf  # product time (ns) of the state from which on a kernel races once more, or is noted
        self._n_left = MAX_RACES  # races of the candidate until one is won
        self._winner: Any = None  # Any: as `trial`; the candidate that won
        self._to_note: Slices | Blocks | None = None  # slices of a winner that is still to be noted
        self._operand: Callable[[], AnyOperand | None] = lambda: None  # a weak reference
        self._clock = clock
        self._pairs: list[tuple[float, float]] = []
        self._round: dict[bool, float] = {}  # is candidate -> seconds of this round
        self._is_warm = False
        self._is_repeated = False  # whether the race began anew, because noise decided too many rounds
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

    def _ready(self, state: DispatchState, operand: AnyOperand) -> SliceTrial | None:
        dtype, isa = state.dtype.name, slice_kernel.isa_of(state.options.isa)
        if not isinstance(operand, Operand) or dtype not in GENERATED or not isa.is_shipped:
            return None
        is_large = max(operand.n_major, operand.n_minor) > MAX_EXTENT
        if is_large or not slice_kernel.may_serve(state.options.compiler):
            return None
        turned = state.turning.arrays(operand) if state.transposed and state.turning is not None else None
        if state.transposed and turned is None:
            return None
        offered = self._slices(operand, isa, turned) if state.n_dense_cols == 1 else _shared(state, operand)
        for one in offered:
            address = slice_kernel.address_of(one, dtype, operand.indptr.dtype.name, isa.name)
            if not address:
                continue
            trial = SliceTrial(one, state, operand, turned=turned)
            if turned is not None and (state.turning is None or state.turning.arrays(operand) is not turned):
                return None  # another thread has written since the rows were made
            self.has_candidate = True
            with memory.scratch_recycled():  # new pages may take longer than packing
                trial.pack(operand, SliceKernel.shipped(one, address))  # compares its result with the default kernel's
            return trial if trial.ready else None
        return None

    def _slices(self, operand: Operand, isa: Isa, turned: tuple[Any, ...] | None) -> list[Slices | Blocks]:
        """Return the slices that may race; the first one with a shipped kernel for the values does."""
        if self._shape is None:
            return []
        if self._shape[1] == IN_BLOCKS:
            return [Blocks(self._shape[0], 0, BLOCK_BITS)]
        found = [candidate(self._shape, operand.data[: operand.nnz], isa.name)]
        if found[0].sigma == 1 and not found[0].is_encoded and fits_high(turned[0] if turned else operand.indptr):
            found.insert(0, Slices(HIGH_SLICE))
        return [one for one in found if one.is_encoded or not self._only_encoded]

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
            is_unclear = won is False and len(self._pairs) >= MAX_ROUNDS and is_ahead(self._pairs)
            if is_unclear and not self._is_repeated and trial.ready:
                won, self._pairs, self._is_repeated = None, [], True
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

    def _end(self, state: DispatchState, operand: AnyOperand, trial: Any, *, is_won: bool) -> None:
        is_first, self.trial, self.is_won = not self.is_won, None, is_won
        if is_won:
            self.ratio = median(default / mine for default, mine in self._pairs)
            self.default_s = median(default for default, _ in self._pairs)
            self.check_ns = state.product_ns + CHECK_AFTER * 1e9 * self.default_s / self.ratio if is_first else inf
            self._serve(state, operand, trial)
            event("plan", "early", kernel=_named(trial), ratio=self.ratio)
        else:
            state.serving = state.recalled = None
            self.check_ns = self._repeat_ns(state) if is_first else inf
            trial.drop()
        account = state.account
        if is_first or account is None or state.n_dense_cols > 1 or state.transposed:  # a note states slices of rows
            return
        if is_won and account.plan is None:
            missing_s = NOTED_AFTER * self.spent_s - self.saved_s(state.tuned_ns)
            self.check_ns = state.product_ns + 1e9 * max(0.0, missing_s) / max(self.ratio - 1.0, MARGIN)
            self._to_note = trial.slices
        elif account.plan is not None:
            self._note(state, operand, trial.slices)

    def _repeat_ns(self, state: DispatchState) -> float:
        """Return the product time (ns) from which on the loser races once more; inf: it does not.

        The share `overhead` of all products, or of all solves, has then paid for the next race, too.
        """
        default_s, mine_s = map(min, zip(*self._pairs, strict=True)) if self._pairs else (inf, inf)
        self._n_left -= 1
        is_clear = default_s > SHORT_S or mine_s > AS_THREADS * default_s
        if is_clear or not self._n_left or state.options.overhead <= 0:
            return inf
        paid_ns = 2e9 * self.spent_s / state.options.overhead - (state.solver_ns or 0)
        return max(paid_ns, 2.0 * state.product_ns)

    def _serve(self, state: DispatchState, operand: AnyOperand, trial: Any) -> None:
        reference = self._operand = weakref.ref(operand)
        state.serving = state.recalled = self._winner = trial

        def expand() -> Any:  # Any: a KernelTrial, or None
            found = reference()
            return None if found is None else self.expand(state, found)

        trial.expand = expand

    def _note(self, state: DispatchState, operand: AnyOperand, winner: Slices | Blocks) -> None:
        """Write the winner into the account of the problem, or remove it after a lost race."""
        start_s = self._clock()
        with forking.loading():
            from autosparse.tuning.memory import early_notes

        if self.is_won:
            early_notes.write(state, operand, winner, (self.default_s, self.default_s / self.ratio))
        else:
            early_notes.forget(state)
        self.spent_s += self._clock() - start_s

    def resume(self, state: DispatchState, operand: AnyOperand, trial: SliceTrial, note: PlanNote) -> None:
        """Let the winner of an earlier process serve; it races once more after CHECK_AFTER products."""
        self.has_candidate = self.is_won = True
        self.default_s, self.ratio = note.default_s, note.default_s / note.measured_s
        self.check_ns = state.product_ns + CHECK_AFTER * 1e9 * note.measured_s
        self._serve(state, operand, trial)
        event("plan", "remembered", slices=trial.slices, ratio=self.ratio)

    def check(self, state: DispatchState, operand: AnyOperand) -> None:
        """Let the candidate race once more, or note it, if products are due for that and it has not been replaced."""
        if state.product_ns < self.check_ns:
            return
        self.check_ns, start_s = inf, self._clock()
        if not self.is_won:
            self._pairs, self._round, self._is_warm, self._is_repeated = [], {}, False, False
            if expected_look_s(operand) == 0.0:
                self.begin(state, operand, start_s)
        elif self._to_note is not None:
            self._note_winner(state)
        elif self._winner is not None and self._winner.ready and state.serving is state.recalled is self._winner:
            self.trial, self._pairs, self._round = state.recalled, [], {}
            self._is_warm = self._is_repeated = False
            self._next(state)

    def finish(self, state: DispatchState) -> None:
        """Note the winner at the end of the process, if it has saved the cost of its race and is not noted."""
        state.commit()
        if self._to_note is not None and self.saved_s(state.tuned_ns) >= PAID_BACK * self.spent_s:
            self._note_winner(state)

    def _note_winner(self, state: DispatchState) -> None:
        operand, winner, self._to_note = self._operand(), self._to_note, None
        if winner is not None and operand is not None and self.is_won:
            self._note(state, operand, winner)

    def expand(self, state: DispatchState, operand: AnyOperand) -> Any:  # Any: a KernelTrial, or None
        """Let a `KernelTrial` serve in place of the winner, before a search or where values change; return it."""
        with self._lock:
            light = state.recalled
            if not isinstance(light, SliceTrial) or not isinstance(operand, Operand):
                return light
            with forking.loading():
                full = slice_trial.expanded(light, state, operand, self.default_s * (1.0 - 1.0 / self.ratio))
            state.serving = full if state.serving is light or self.trial is light else state.serving
            self.trial = None  # a check of the winner is over
            state.recalled, self.is_won = full, full is not None
            return full

    def retire(self, state: DispatchState) -> None:
        """End the race or the service of its winner, so that a search has the memory of its packed copy."""
        trial: Any = state.recalled if self.trial is None and self.is_won else self.trial  # Any: it can drop its copy
        self.trial, self.is_won, state.recalled, self.check_ns = None, False, None, inf
        if trial is not None:
            state.serving = None if state.serving is trial else state.serving
            trial.drop()

    def saved_s(self, tuned_ns: float) -> float:
        """Return the seconds that products of `tuned_ns` by the winner saved."""
        return tuned_ns * 1e-9 * (self.ratio - 1.0) if self.is_won else 0.0

    def plan(self, state: DispatchState) -> Plan:
        """Return the plan of the winner, which serves `state`."""
        from autosparse.core.plan import Plan
        from autosparse.core.solver import choice_of

        trial: Any = state.recalled  # Any: a KernelTrial or a SliceTrial
        is_light = isinstance(trial, SliceTrial)
        schedule = slice_trial.schedule_of(trial.slices, state) if is_light else trial.schedule
        return Plan(
            choice=choice_of(schedule),
            why=f"fastest of 1 shipped kernel, {self.ratio:.2f}x the default kernel; a search has not begun",
            default_s=self.default_s, measured_s=self.default_s / self.ratio,
        )  # fmt: skip

    def forget_threads(self) -> None:
        """Reset the lock in a forked child."""
        self._lock = forking.lock()


def _named(trial: Any) -> object:
    """Return what the log states of a candidate: its slices, or the format of its schedule."""
    return trial.schedule.format if hasattr(trial, "schedule") else trial.slices


def resumed(state: DispatchState, operand: AnyOperand, note: PlanNote) -> EarlyRace | None:
    """Return a race that an earlier process won, whose winner serves now; None if the winner may not serve."""
    from autosparse.tuning.memory import early_notes

    is_measured = note.default_s > 0.0 and note.measured_s > 0.0
    trial = early_notes.recalled(state, operand, note) if is_measured else None
    if trial is None:
        return None
    race = EarlyRace()
    race.resume(state, operand, trial, note)
    account = state.account
    if account is not None:
        account.is_served = True
    return race
