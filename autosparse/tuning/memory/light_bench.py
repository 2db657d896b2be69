"""Minimal context of a kernel's trial, for processes that have not imported what a search needs.

`shared_rows` is the candidate of the early race of products with several columns.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final, cast

from autosparse.config import Options
from autosparse.core.problem import Problem
from autosparse.dispatch.state import DispatchState, dispatcher_of
from autosparse.log import event
from autosparse.operands.packed_copies import PackedCopyCache
from autosparse.targets.priors import number
from autosparse.tuning.problems import problem_of
from autosparse.tuning.trials.kernel_trial import KernelTrial
from autosparse.tuning.trials.operand_adapter import OperandAdapter, adapter_of

if TYPE_CHECKING:
    from autosparse._native.ir.spec import KernelSpec
    from autosparse._native.kernels.kernel import CompiledKernel
    from autosparse.operands.unfolding import AnyOperand

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


def shared_rows(state: DispatchState, operand: AnyOperand) -> KernelTrial | None:
    """Return the packed trial of the shipped kernel that computes three rows with common columns at a time.

    Its tile is the widest one of which a product fills more than half, at the width of the state's first product. None
    if there is no such kernel, or if it fails.
    """
    from autosparse._native.kernels.shipped import shipped_kernel
    from autosparse._native.kernels.shipped_specs import shared
    from autosparse.core.solver import choice_of
    from autosparse.isa import ISAS
    from autosparse.scalar import SCALARS
    from autosparse.tuning.trials.specs import spec_of

    bench = LightBench(state, operand)
    row = ISAS[bench.problem.target.isa]
    offered = shared(SCALARS[state.dtype.name].lanes(row.vector_bytes), row.n_registers)
    fitting = [one for one in offered if one.dense_split("j") < 2 * state.n_dense_cols]
    specs = {one: cast("KernelSpec", spec_of(bench.problem, one)) for one in fitting}
    kernels = {one: shipped_kernel(spec, state.options.compiler) for one, spec in specs.items()}
    ready = [one for one in fitting if kernels[one] is not None]
    if not ready:
        return None
    schedule = max(ready, key=lambda one: one.dense_split("j"))
    trial = KernelTrial(choice_of(schedule), bench)
    trial.kernel = kernels[schedule]
    if not trial.fits():
        return None
    trial.pack()  # compares its result with the default kernel's
    if not trial.ready:
        trial.drop()
        return None
    return trial
