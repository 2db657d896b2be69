"""Trials of a search with real kernels: build the kernel, pack the operand, run products."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol

from autosparse import _native
from autosparse._native import runtime_api
from autosparse.containment import contained
from autosparse.core.formats import DICTIONARY
from autosparse.core.pattern import Pattern
from autosparse.core.problem import Problem
from autosparse.core.schedule import SuperSchedule
from autosparse.core.values import dataclass
from autosparse.errors import PackError, StructureError
from autosparse.log import event
from autosparse.notices import FallbackWarning, warn_once
from autosparse.operands.csr import Operand
from autosparse.operands.packed_copies import PackedCopy
from autosparse.tuning.trials import comparison
from autosparse.tuning.trials.iterations import why_endless
from autosparse.tuning.trials.operand_adapter import sized
from autosparse.tuning.trials.served import ServedTrial

if TYPE_CHECKING:
    from autosparse.config import Options
    from autosparse.core.composite import Schedule
    from autosparse.dispatch.protocols import Bound, Call, Kernel
    from autosparse.operands.native_rows import NativeRows
    from autosparse.operands.packed_copies import PackedCopyCache
    from autosparse.operands.unfolding import AnyOperand
    from autosparse.tuning.memory.history import TuningStats
    from autosparse.tuning.trials.operand_adapter import OperandAdapter


class TrialContext(Protocol):
    """Interface of a context that builds kernels of one problem and estimates costs, such as `TuningContext`."""

    problem: Problem
    options: Options
    stats: TuningStats
    packed_copies: PackedCopyCache
    structure_version: int
    is_stale: bool

    @property
    def adapter(self) -> OperandAdapter:
        """The operand adapter of the problem's operation."""

    @property
    def limit_bytes(self) -> int:
        """Maximum number of bytes of packed copies of this operand."""

    def operand(self) -> AnyOperand | None:
        """Return the operand; None if it no longer exists."""

    def n_threads(self) -> int:
        """Return the number of threads that a kernel may use now."""

    def loaded(self, schedule: Schedule) -> Kernel | None:
        """Return the kernel of `schedule` if this process has loaded it, else None."""

    def is_built(self, schedule: Schedule) -> bool:
        """Return whether the kernel of `schedule` needs no compiler."""

    def build(self, trials: Sequence[KernelTrial]) -> None:
        """Compile the kernels of several trials."""

    def lent(self) -> Call | None:
        """Return a call on synthetic dense operands that products are timed with, if there is one now."""

    def compare_price_s(self, schedule: Schedule | None = None) -> float:
        """Return the expected seconds of comparing a kernel's result with the default kernel's."""

    def note_wrong(self, trial: KernelTrial, difference: str) -> None:
        """Record that the kernel of `trial` computes a wrong result."""


@dataclass(slots=True, eq=False)
class KernelTrial(ServedTrial):
    """One choice of a built-in solver under test, and its kernel; see `tuner.search.trial.Trial`."""

    context: TrialContext
    kernel: Kernel | None = None
    _bound_to: tuple[Any, ...] | None = None  # addresses of the user's arrays that _bound reads, if it reads them

    # -- getting there

    @property
    def schedule(self) -> Schedule:
        """The schedule that the kernel computes."""
        schedule: Schedule = self.choice.knobs  # type: ignore[assignment]  # the knobs of built-in solvers
        return schedule

    @property
    def reads_live(self) -> bool:
        """Return whether the kernel reads the user's own arrays, so that nothing is packed and nothing can be stale."""
        return self.context.adapter.reads_live(self.context.problem, self.schedule.format)

    def _late_repack_s(self, packed_copy: PackedCopy) -> float:
        """Return the recent seconds of repacking new values; before the first time, the expected seconds."""
        late_ns = min(packed_copy.refresh_ns, packed_copy.smoothed_refresh_ns)
        return late_ns * 1e-9 or self.context.stats.cost_estimates.price_s("refresh", self.context.problem.pattern.nnz)

    @property
    def bound_to(self) -> tuple[Any, ...] | None:
        """Shape and addresses of the user's arrays that a kernel without a packed copy is bound to."""
        return self._bound_to

    def build_price_s(self) -> float:
        """Return the expected seconds of `build`: a compilation, a load from the cache, or nothing."""
        if self.kernel is not None or self.context.loaded(self.schedule) is not None:
            return 0.0
        return self.context.stats.cost_estimates.price_s("load" if self.context.is_built(self.schedule) else "compile")

    def pack_price_s(self) -> float:
        """Return the expected seconds of `pack`, including its final comparison of results."""
        problem = self.context.problem
        compare_s = 0.0 if self._is_compared() else self.context.compare_price_s(self.schedule)
        if self.reads_live or self.context.packed_copies.has(self.schedule.format, self.context.adapter.view(problem)):
            return compare_s
        return compare_s + self.context.stats.cost_estimates.price_s(self._pack_kind(), self._pack_units())

    def _pack_kind(self) -> str:
        return sized("pack", self.context.problem.pattern.nnz)

    def _pack_units(self) -> float:
        return _native.order_effort(self.schedule.format) * self.context.problem.pattern.nnz

    def build(self) -> None:
        """Compile the kernel or load it from the cache; a failure sets `failed` and is remembered."""
        if self.kernel is None:
            self.context.build([self])

    def fits(self) -> bool:
        """Return whether the packed pattern fits within the memory limit, O(nnz) at most; if not, set `failed`."""
        if self.reads_live or self.packed_bytes:
            return True
        problem, fmt, adapter = self.context.problem, self.schedule.format, self.context.adapter
        unfit = adapter.reason_unfit(problem, fmt)
        if not unfit:
            self.packed_bytes = adapter.packed_bytes(problem, fmt, self.context.operand())
        if unfit:
            self._fail(PackError.unfit(fmt, unfit))
        elif self.packed_bytes > self.context.limit_bytes:
            self._fail(PackError.too_large(fmt, needed_bytes=self.packed_bytes, limit_bytes=self.context.limit_bytes))
        return self.failed is None

    def _fail(self, err: Exception) -> None:
        self.failed = str(err).split("\n", 1)[0]

    def pack(self) -> None:
        """Pack the operand if the format needs it, bind it to the kernel, and compare the kernel's result.

        This is the only way to `ready`: a kernel without a compared result never computes a user's product.
        """
        if self.kernel is None:
            return
        self.lacks_memory = False
        operand = self.context.operand()
        if operand is None:
            self.failed = "the matrix was freed during tuning"
            return
        try:
            self._pack_in_time(operand, self.schedule)
            if self._bound is not None and self._ends(self._bound, self.schedule):
                self._compare(operand, self.schedule)
        except PackError as err:
            limit_bytes, others_bytes = self.context.limit_bytes, self.context.packed_copies.n_bytes
            self.lacks_memory = self.packed_bytes <= limit_bytes < self.packed_bytes + others_bytes
            if not self.lacks_memory:
                self._fail(err)
        except MemoryError:
            self.failed = "not enough memory to pack the operand"
            warn_once(FallbackWarning, "memory", f"{self.failed}: the default kernel is used")
        except StructureError as err:
            self.failed = f"the matrix is not valid any more: {err}"
        if self.failed is not None:
            self.drop()
        event("pack", self.failed or "", format=self.schedule.format, seconds=self.pack_s, bytes=self.packed_bytes)

    def _pack_in_time(self, operand: AnyOperand, schedule: Schedule) -> None:
        start_s = time.perf_counter()
        view = self.context.adapter.view(self.context.problem)
        is_new = not self.reads_live and not self.context.packed_copies.has(schedule.format, view)
        try:
            self._pack(operand, schedule)
        finally:
            self.pack_s = time.perf_counter() - start_s
        if is_new:
            self.context.stats.cost_estimates.observe(self._pack_kind(), self.pack_s, self._pack_units())

    def _ends(self, bound: Bound, schedule: Schedule) -> bool:
        """Return whether the kernel's loops end in acceptable time; if not, set `failed`."""
        if isinstance(schedule, SuperSchedule):
            self.failed = why_endless(schedule, bound.packed, self.context.problem)
        return self.failed is None

    def _comparison_name(self) -> tuple[Any, ...]:
        """Return a key that is equal for equal code, data and columns, so that each result is compared only once."""
        problem = self.context.problem
        n_columns = comparison.columns_compared(problem, self.schedule)
        return self.code_address, self.schedule, self.context.adapter.view(problem), n_columns

    @property
    def code_address(self) -> int:
        """Address of the kernel's code, which identifies it in this process; requires a kernel."""
        assert self.kernel is not None
        return self.kernel.address

    def _is_compared(self) -> bool:
        return self.kernel is not None and self._comparison_name() in self.context.packed_copies.compared

    def _compare(self, operand: AnyOperand, schedule: Schedule) -> None:
        """Set `failed` unless the kernel's result agrees with the default kernel's."""
        if self._is_compared():
            return
        context, reason = self.context, None
        context.problem.pattern.forget()  # a vector; results to compare take three
        for _ in range(2):  # once more if the matrix was written in between
            operand.refresh()
            versions = operand.structure_version, operand.values_version
            packed_copy = self.packed_copy
            if packed_copy is not None and context.adapter.keeps_values and not packed_copy.refresh(operand):
                reason = comparison.UNKNOWABLE_NOW
                break
            start_s = time.perf_counter()
            n_threads, lent = context.n_threads(), context.lent()
            reason = comparison.difference(context.problem, operand, self._by_kernel, schedule, n_threads, lent=lent)
            kind, units = comparison.work(context.problem, schedule)
            context.stats.cost_estimates.observe(kind, time.perf_counter() - start_s, units)
            operand.refresh()
            if reason is None or versions == (operand.structure_version, operand.values_version):
                break
        if reason is None:
            context.packed_copies.compared.add(self._comparison_name())
        elif reason in comparison.INCOMPARABLE:
            self.failed = reason
        else:
            context.note_wrong(self, reason)

    def _by_kernel(self, call: Call) -> bool:
        assert self._bound is not None
        return call.by(self._bound, self.context.n_threads())

    def _pack(self, operand: AnyOperand, schedule: Schedule) -> None:
        problem, fmt, adapter = self.context.problem, schedule.format, self.context.adapter
        if self.reads_live:
            assert isinstance(operand, Operand)
            self._bind_live(operand, operand.rows or operand.validate())
            return

        def pack() -> tuple[Any, int]:
            operand.refresh()
            version = operand.values_version
            if operand.structure_version != self.context.structure_version:
                self.context.is_stale = True
                raise PackError.unfit(fmt, "the structure of the matrix has changed meanwhile")
            return adapter.pack(problem, operand, fmt), version

        self.packed_copy = self.context.packed_copies.take(
            fmt, adapter.view(problem), needed_bytes=self.packed_bytes, limit_bytes=self.context.limit_bytes, pack=pack
        )
        self.packed_bytes = self.packed_copy.n_bytes
        assert self.kernel is not None
        self._bound = self.kernel.bind(self.packed_copy.packed)

    def adopt(self, kernel: Kernel, packed_copy: PackedCopy) -> None:
        """Take over a packed copy on which the result of `kernel` was compared before."""
        self.kernel, self.packed_copy, self.packed_bytes = kernel, packed_copy, packed_copy.n_bytes
        self._bound = kernel.bind(packed_copy.packed)
        self.context.packed_copies.compared.add(self._comparison_name())

    def drop(self) -> None:
        """Release the packed copy; the trial can be packed again."""
        self._bound = self._bound_to = None
        packed_copy, self.packed_copy = self.packed_copy, None
        if packed_copy is not None:
            packed_copy.retire_fast_paths(self)
            self.context.packed_copies.give(packed_copy)

    # -- running

    def run(self, operand: AnyOperand, call: Call) -> bool:
        """Compute C; return False if this kernel cannot compute this product (C then holds nothing of use).

        StructureError is raised, as by the default kernel, if the structure was broken. Any other failure ends this
        trial, and the default kernel serves.
        """
        bound, packed_copy = self._bound, self.packed_copy
        if bound is None or not call.suits_generated:
            return False
        try:
            if packed_copy is None:
                if self._bound_to != _places(call.rows) and not self._bind_live(operand, call.rows):
                    return False
                return call.by(self._bound or bound, self.context.n_threads())
            start_ns = time.perf_counter_ns()
            self.looked_ns = 0
            is_current = self._is_current(operand, packed_copy)
            self.looked_ns = time.perf_counter_ns() - start_ns
            if self.service is not None:
                self.service.choice.spent_s += self.looked_ns * 1e-9
            return is_current and self._run_packed(bound, packed_copy, call)
        except StructureError:
            raise
        except contained() as err:
            self._break(err, "a tuned kernel")
            return False

    def run_as_packed(self, call: Call) -> bool:
        """Run a product that is only timed: without a check for writes, the packed values may be out of date."""
        bound, packed_copy = self._bound, self.packed_copy
        if bound is None or packed_copy is None or not call.suits_generated:
            return False
        return self._run_packed(bound, packed_copy, call)

    def _run_packed(self, bound: Bound, packed_copy: PackedCopy, call: Call) -> bool:
        packed_copy.enter()
        try:
            return call.by(bound, self.context.n_threads())
        finally:
            packed_copy.leave()

    def _is_current(self, operand: AnyOperand, packed_copy: PackedCopy) -> bool:
        """Check the arrays for writes, repack if needed, and return whether the packed copy has the current values.

        It also returns False where checks and repacking cost more than the kernel saves.
        """
        n_looks = operand.n_looks if isinstance(operand, Operand) else 0
        operand.refresh()
        if operand.structure_version != self.context.structure_version:
            return False
        is_stale = self.context.adapter.keeps_values and operand.values_version != packed_copy.values_version
        if isinstance(operand, Operand) and self.service is not None and (is_stale or operand.n_looks != n_looks):
            repack_s = self._late_repack_s(packed_copy) if is_stale else None
            if not self.service.looked(operand, repack_s=repack_s):
                return False
        return not is_stale or self._repack(operand, packed_copy)

    def _bind_live(self, operand: AnyOperand, rows: NativeRows) -> bool:
        """Bind the kernel to the user's arrays at their present addresses; False if their index dtype has changed."""
        assert isinstance(operand, Operand)
        pack_live = self.context.adapter.pack_live
        assert pack_live is not None
        if rows.index_code != runtime_api.INDEX_CODES[self.context.problem.pattern.index_dtype]:
            return False
        # The operand's cached pattern may refer to arrays that were replaced by equal ones.
        pattern = Pattern(rows.n_major, rows.n_minor, operand.indptr, operand.indices)
        assert isinstance(self.schedule, SuperSchedule)
        packed = pack_live(pattern, operand, self.schedule.format)
        assert self.kernel is not None
        self._bound, self._bound_to = self.kernel.bind(packed), _places(rows)
        return True

    def _repack(self, operand: AnyOperand, packed_copy: PackedCopy) -> bool:
        """Write the operand's present values to the packed copy; return whether it is up to date now."""
        start_s = time.perf_counter()
        try:
            is_current = packed_copy.refresh(operand)
        except PackError as err:  # the format cannot hold the new values
            self._fail(err)
            self.context.is_stale |= self.context.problem.storage == DICTIONARY  # too many distinct values now
            return False
        if is_current:
            seconds = time.perf_counter() - start_s
            self.context.stats.cost_estimates.observe("refresh", seconds, self.context.problem.pattern.nnz)
            event("pack", "refreshed", seconds=seconds)
        return is_current


def _places(rows: NativeRows) -> tuple[Any, ...]:
    """Return the shape and addresses of the user's arrays, to which a kernel without a packed copy is bound."""
    return rows.n_major, rows.n_minor, rows.index_code, rows.indptr[0], rows.indices[0], rows.data[0]
