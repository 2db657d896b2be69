"""Trials of solvers beside the built-in ones: registered solvers, and vendors' libraries."""

from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING

from autosparse.containment import contained
from autosparse.core.solver import Solver, SparseOperand, TensorOperand
from autosparse.core.values import dataclass
from autosparse.errors import StructureError
from autosparse.log import event
from autosparse.operands.csr import Operand
from autosparse.tuning.solvers.offered import cost_of, reason_against, solver_named
from autosparse.tuning.trials import comparison
from autosparse.tuning.trials.served import ServedTrial
from autosparse.tuning.trials.solver_arguments import arguments_of, identity_of, operand_of

if TYPE_CHECKING:
    from autosparse.dispatch.protocols import Call
    from autosparse.operands.unfolding import AnyOperand
    from autosparse.tuning.trials.kernel_trial import TrialContext


@dataclass(slots=True, eq=False)
class SolverTrial(ServedTrial):
    """One choice of a registered solver or a vendor's library; see `tuner.search.trial.Trial`.

    Products by it go through Python. Results are compared with the default kernel's before the trial is ready.
    """

    context: TrialContext
    _solver: Solver | None = None
    _operand: SparseOperand | TensorOperand | None = None  # the arrays as they were prepared
    _arrays: object = None  # identity of these arrays
    _values_version: int = -1

    @property
    def reads_live(self) -> bool:
        """Return whether the solver reads A's arrays in each product, so that values never need preparation."""
        return bool(getattr(self._solver, "reads_live", False))

    @property
    def bound(self) -> None:
        """None: no fast call supports solvers, whose code is not known by its address."""

    def build_price_s(self) -> float:
        """Return 0: solvers load what they need in `pack`."""
        return 0.0

    def pack_price_s(self) -> float:
        """Return the expected seconds of preparing the operand and comparing one result."""
        solver, compare_s = self._found(), self.context.compare_price_s()
        cost = None if solver is None else cost_of(solver, self.context.problem, self.choice)
        setup_s = cost.setup_s if cost is not None and math.isfinite(cost.setup_s) else 0.0
        return compare_s + (self.pack_s or max(0.0, setup_s))

    def build(self) -> None:
        """Find the solver; set `failed` if it is not registered, or if it refuses the problem."""
        solver = self._found()
        if solver is None:
            self.failed = f"the solver {self.choice.solver} is not registered in this process, or not allowed"
        else:
            self.failed = reason_against(solver, self.context.problem)

    def _found(self) -> Solver | None:
        if self._solver is None:
            self._solver = solver_named(self.choice.solver, self.context.options, self.context.problem.operation)
        return self._solver

    def pack(self) -> None:
        """Prepare the operand, and compare one result with the default kernel's; set `failed` if something fails."""
        operand = self.context.operand()
        if self._found() is None or self.ready or operand is None:
            return
        try:
            start_s = time.perf_counter()
            self._prepare(operand)
            self.pack_s = time.perf_counter() - start_s
            n_threads, lent = self.context.n_threads(), self.context.lent()
            reason = comparison.difference(self.context.problem, operand, self._compute, None, n_threads, lent=lent)
        except contained() as err:
            reason = f"{type(err).__name__}: {err}".split("\n", 1)[0]
        if reason is not None:
            self.failed = f"the solver {self.choice.solver} cannot be used: {reason}"
            self.drop()
        event("pack", self.failed or "", format=self.choice.solver, seconds=self.pack_s, bytes=0)

    def _prepare(self, operand: AnyOperand) -> None:
        """Prepare the operand's present arrays; raise StructureError if they are no valid structure."""
        assert self._solver is not None
        operand.refresh()
        version = operand.values_version
        self._operand = operand_of(self.context.problem, operand, self.context.n_threads())
        self._bound = self._solver.prepare(self._operand, self.choice.knobs)
        self._arrays, self._values_version = identity_of(operand), version

    def drop(self) -> None:
        """Release what the solver prepared; the trial can be packed again."""
        self._bound = self._operand = self._arrays = None

    # -- running

    def run(self, operand: AnyOperand, call: Call) -> bool:
        """Compute C; return False if this solver cannot compute this product (C then holds nothing of use).

        StructureError is raised, as by the default kernel, if the structure was broken. Any other failure ends this
        trial, and the default kernel serves.
        """
        if self._bound is None:
            return False
        try:
            start_ns = time.perf_counter_ns()
            is_current = self._is_current(operand)
            self.looked_ns = time.perf_counter_ns() - start_ns
            return is_current and self._compute(call)
        except StructureError:
            raise
        except contained() as err:
            self._break(err, "a solver")
            return False

    def _is_current(self, operand: AnyOperand) -> bool:
        """Check the arrays for writes, prepare them anew if needed, and return whether the solver has current values.

        It also returns False where checks and preparations cost more than the solver saves.
        """
        n_looks = operand.n_looks if isinstance(operand, Operand) else 0
        operand.refresh()
        if operand.structure_version != self.context.structure_version:
            return False
        arrays = identity_of(operand)
        is_moved = arrays is None or arrays is not self._arrays
        is_stale = is_moved or (not self.reads_live and operand.values_version != self._values_version)
        if self.service is not None and isinstance(operand, Operand) and (is_stale or operand.n_looks != n_looks):
            repack_s = self.pack_s if is_stale and not self.reads_live else None
            if not self.service.looked(operand, repack_s=repack_s):
                return False
        if is_stale:
            self._prepare(operand)
        return True

    def _compute(self, call: Call) -> bool:
        """Run the product of `call` by the solver."""
        if self._operand is None or self._bound is None:
            return False
        arguments = arguments_of(self._operand, call, self.context.n_threads())
        return arguments is not None and self._bound.run(arguments) is not False
