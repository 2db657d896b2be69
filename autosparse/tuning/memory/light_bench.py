"""Minimal context of a kernel's trial, for processes that have not imported what a search needs."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

from autosparse.config import Options
from autosparse.core.problem import Problem
from autosparse.dispatch.state import DispatchState, dispatcher_of
from autosparse.log import event
from autosparse.operands.packed_copies import PackedCopyCache
from autosparse.targets.priors import number
from autosparse.tuning.problems import problem_of
from autosparse.tuning.trials.operand_adapter import OperandAdapter, adapter_of

if TYPE_CHECKING:
    from autosparse._native.kernels.kernel import CompiledKernel
    from autosparse.operands.unfolding import AnyOperand
    from autosparse.tuning.trials.kernel_trial import KernelTrial

REFRESH_S: Final = number("step seconds per unit", "refresh")
"""Seconds per entry of writing new values to a packed copy, before any observation on this machine."""


class _NoTuningStats:
    """Substitute for `TuningStats` in a process that has not imported the learned cost estimates."""

    @property
    def cost_estimates(self) -> _NoTuningStats:
        """This object, which also has the methods of cost estimates that trials use."""
        return self

    def price_s(self, kind: str, units: float = 1.0) -> float:
        """Return the price of refreshing values, else 0, since other steps are not weighed here."""
        return REFRESH_S * units if kind == "refresh" else 0.0

    def observe(self, kind: str, seconds: float, units: float = 1.0) -> None:
        """Ignore the measurement; only normal tuning records it."""


class LightBench:
    """Minimal context for the trial of one kernel that exists; see `kernel_trial.TrialContext`."""

    def __init__(self, state: DispatchState, operand: AnyOperand) -> None:
        self.problem: Problem = problem_of(operand, state)
        self.options: Options = state.options
        self.packed_copies: PackedCopyCache = dispatcher_of(operand).packed_copies
        self.structure_version: int = operand.structure_version
        self.is_stale = False
        self.stats: Any = _NoTuningStats()  # Any: has the methods of `TuningStats` that trials use
        self.operand: Callable[[], AnyOperand | None] = weakref.ref(operand)

    @property
    def adapter(self) -> OperandAdapter:
        """The operand adapter of the problem's operation."""
        return adapter_of(self.problem.operation)

    @property
    def limit_bytes(self) -> int:
        """Maximum number of bytes of packed copies of this operand."""
        return int(self.options.extra_memory * self.problem.operand_bytes)

    def n_threads(self) -> int:
        """Return the number of threads that a kernel may use now."""
        from autosparse._native import runtime_api

        return self.options.threads or runtime_api.max_threads()

    def lent(self) -> None:
        """Return None: no call is timed."""

    def loaded(self, schedule: Any) -> CompiledKernel | None:
        """Return None: the caller sets the kernel of the trial."""
        return None

    def is_built(self, schedule: Any) -> bool:
        """Return True: the kernel exists before this is called."""
        return True

    def build(self, trials: Sequence[KernelTrial]) -> None:
        """Do nothing: the kernels of `trials` exist already."""

    def compare_price_s(self, schedule: Any = None) -> float:
        """Return 0: the steps are priced as a whole."""
        return 0.0

    def note_wrong(self, trial: KernelTrial, difference: str) -> None:
        """Set `failed` because the kernel's result is wrong."""
        trial.failed = f"the kernel computes something else than the default kernel: {difference}"
        event("fallback", trial.failed)
