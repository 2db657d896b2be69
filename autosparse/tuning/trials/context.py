"""The lab: makes the trials of one problem on one operand, builds their kernels and gives out runs to time."""

from __future__ import annotations

import copy
import dataclasses
import itertools
import math
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

from autosparse import _native, cache
from autosparse._native import memory, runtime_api
from autosparse.config import Options
from autosparse.core.composite import Schedule
from autosparse.core.problem import Problem
from autosparse.core.schedule import SuperSchedule
from autosparse.core.values import dataclass, field
from autosparse.dispatch import fast_path
from autosparse.dispatch.calls import MatmulCall
from autosparse.dispatch.protocols import Call
from autosparse.dispatch.state import DispatchState
from autosparse.errors import BuildError, RecordError
from autosparse.log import event
from autosparse.notices import FallbackWarning, warn_once
from autosparse.operands.csr import Operand
from autosparse.operands.packed_copies import PackedCopyCache
from autosparse.operands.unfolding import AnyOperand
from autosparse.tuner.search.trial import Trial
from autosparse.tuning.memory.history import TuningStats, tuning_stats_of
from autosparse.tuning.trials import comparison
from autosparse.tuning.trials.kernel_trial import KernelTrial
from autosparse.tuning.trials.operand_adapter import LINE_BYTES, OperandAdapter, adapter_of, rows_of
from autosparse.tuning.trials.specs import spec_of, supports_of

if TYPE_CHECKING:
    from autosparse.dispatch.protocols import Kernel

PATIENCE_S: Final = 0.5
"""Of a context, all in all: how long it waits for threads that keep away from busy cores."""
MIN_LIMIT_S: Final = 2.0
HANGING_COMPILER: Final = 10.0
"""Times its expected price, and MIN_LIMIT_S at least, that a compiler may take: then it hangs."""
_wrong: Final[dict[int, str]] = {}
"""Addresses of kernels of this process whose results were wrong, and how."""


def unwatched(way: Callable[[Any], object], call: object) -> None:
    """Run a call for its time alone: on its threads, whatever the program's own products found better."""
    lib = runtime_api.lib
    lib.asp_pool_tune_call_intervals(0)
    try:
        way(call)
    finally:
        lib.asp_pool_tune_call_intervals(1)


@dataclass(slots=True, eq=False)
class TuningContext:
    """Makes trials of one problem on one operand; what they need beside their schedule."""

    problem: Problem
    operand: Callable[[], AnyOperand | None]  # a weak reference
    options: Options
    store: cache.Store
    stats: TuningStats
    packed_copies: PackedCopyCache
    structure_version: int
    account_key: bytes = b""  # names the problem in the file of accounts
    failures: list[str] = field(default_factory=list)
    plan_key: cache.PlanKey | None = None  # under which the plan is remembered, once it was asked for
    patience_s: float = math.inf  # how long a compiler may take although it was expected to take less
    ends_at: float = math.inf  # by time.monotonic(): when the budget that the user gave is over
    is_stale: bool = False  # the matrix has another structure than the problem by now, or values of more kinds
    _mapped: dict[int, tuple[Schedule, Kernel | None]] = field(default_factory=dict)  # by id(schedule)
    _calls: tuple[Call, ...] = ()  # on synthetic dense operands
    _patience_s: float = PATIENCE_S

    def __call__(self, schedule: Schedule | None) -> KernelTrial:
        """A trial of `schedule`."""
        return KernelTrial(schedule, self)

    @property
    def adapter(self) -> OperandAdapter:
        """What the operation does differently."""
        return adapter_of(self.problem.operation)

    @property
    def limit_bytes(self) -> int:
        """Most bytes of packed copies of this operand."""
        return int(self.options.extra_memory * self.problem.operand_bytes)  # the option is finite

    def keep_private(self, options: Options) -> None:
        """Keep what is found from now on for this process, as `options` say: never on disk."""
        store = cache.open_store(options)
        if store is not self.store:
            cost_estimates, self.store, self.options = (
                self.stats.cost_estimates,
                store,
                self.options._replace(cache=False),
            )
            self.stats = tuning_stats_of(store, self.problem.target)
            self.stats.cost_estimates = cost_estimates

    def n_threads(self) -> int:
        """Threads a kernel may use now."""
        return self.options.threads or runtime_api.max_threads()

    def spec(self, schedule: Schedule) -> _native.KernelSpec | _native.CompositeSpec:
        """What the kernel's code depends on."""
        return spec_of(self.problem, schedule)

    def loaded(self, schedule: Schedule) -> Kernel | None:
        """The kernel of `schedule` where this process has it mapped, looked up once."""
        if id(schedule) not in self._mapped:
            kernel = _native.loaded(self.spec(schedule), compiler=self.options.compiler)
            self._mapped[id(schedule)] = schedule, kernel
        return self._mapped[id(schedule)][1]

    def is_built(self, schedule: Schedule) -> bool:
        """Whether the kernel of `schedule` needs no compiler."""
        spec, compiler = self.spec(schedule), self.options.compiler
        return self.loaded(schedule) is not None or _native.is_built(spec, store=self.store, compiler=compiler)

    @property
    def supports(self) -> Callable[[str, Schedule], str | None]:
        """See `supports_of`: spaces are remembered by this function, which must not keep a context alive."""
        return supports_of(self.problem.dtype)

    def build(self, trials: Sequence[Trial]) -> None:
        """Compile several kernels, in parallel where there is more than one."""
        ours = [trial for trial in trials if isinstance(trial, KernelTrial) and trial.schedule is not None]
        for trial in ours:
            trial.kernel = self.loaded(trial.schedule) if trial.schedule and trial.fits() else None
            self._disown(trial)
        wanted = [one for one in ours if one.kernel is None and one.failed is None and not self._failed_before(one)]
        if not wanted:
            return
        specs = [self.spec(trial.schedule) for trial in wanted if trial.schedule is not None]
        compiler = self.options.compiler
        are_new = [not _native.is_built(spec, store=self.store, compiler=compiler) for spec in specs]
        start_s = time.perf_counter()
        kernels = _native.build_many(
            specs, store=self.store, compiler=compiler, limit_s=self.compile_limit_s(), ends_at=self._compilers_end()
        )
        seconds = (time.perf_counter() - start_s) / max(1, sum(are_new) or len(specs))
        for trial, kernel, is_new in zip(wanted, kernels, are_new, strict=True):
            if isinstance(kernel, BuildError):
                self._note_failure(trial, kernel)
                continue  # how long it took says nothing about others
            trial.kernel = kernel
            self._disown(trial)
            # Their share of the time that all took together: what the next one will cost on this machine.
            trial.build_s = seconds if is_new or not any(are_new) else 0.0
            if is_new or not any(are_new):
                self.stats.observe("compile" if is_new else "load", seconds)
            event("build", trial.failed or "", format=trial.schedule and trial.schedule.format, seconds=trial.build_s)

    def compile_limit_s(self) -> float:
        """Most seconds that one compilation may take."""
        return max(self.patience_s, MIN_LIMIT_S, HANGING_COMPILER * self.stats.cost_estimates.price_s("compile"))

    def _compilers_end(self) -> float:
        """When every compiler is ended: with the budget, but none before twice the time that it is expected to take."""
        return max(self.ends_at, time.monotonic() + 2.0 * self.stats.cost_estimates.price_s("compile"))

    def _failed_before(self, trial: KernelTrial) -> bool:
        assert trial.schedule is not None
        record = self.store.load("failure", self.spec(trial.schedule).key())
        if record is None:
            return False
        try:
            failure = cache.Failure.from_record(record)
        except RecordError:
            return False
        if not failure.holds(compiler=self.compiler_id(), now=time.time()):
            return False
        trial.failed = failure.reason
        return True

    def _disown(self, trial: KernelTrial) -> None:
        """Take away a kernel that is known to compute something else."""
        if trial.kernel is not None and trial.kernel.address in _wrong:
            trial.failed = _wrong[trial.kernel.address]
            trial.kernel = None

    def _note_failure(self, trial: KernelTrial, err: BuildError) -> None:
        reason = str(err).split("\n", 1)[0]
        if err.is_cancelled:
            trial.failed = reason
            return
        self._remember_failure(trial, reason)
        warn_once(FallbackWarning, "build", FallbackWarning.not_built(err))

    def note_wrong(self, trial: KernelTrial, difference: str) -> None:
        """The kernel of `trial` was compared with the default one and computes something else: never again."""
        reason = f"the kernel computes something else than the default kernel: {difference}"
        _wrong[trial.code_address] = reason
        self._remember_failure(trial, reason)
        warn_once(FallbackWarning, "wrong kernel", FallbackWarning.wrong_kernel(self.compiler_id(), difference))

    def _remember_failure(self, trial: KernelTrial, reason: str) -> None:
        assert trial.schedule is not None
        trial.failed = reason
        self.failures.append(reason)
        key = self.spec(trial.schedule).key()
        failure = cache.Failure(reason=reason, compiler=self.compiler_id(), failed_at=time.time())
        self.store.save("failure", key, failure.to_record())
        event("fallback", reason, key=key)

    def compare_price_s(self, schedule: Schedule | None = None) -> float:
        """Expected seconds of comparing a kernel's result with the default one's."""
        n_columns = comparison.columns_compared(
            self.problem, schedule or SuperSchedule(operation=self.problem.operation)
        )
        kind, units = comparison.kind(self.problem, n_columns), comparison.units(self.problem, n_columns)
        return self.stats.cost_estimates.price_s(kind, units)

    def compiler_id(self) -> str:
        """Names the compiler in failure records."""
        return _native.compiler_id(self.options.compiler)

    def runner(self, trial: Trial, turn: int = 0) -> Callable[[], object] | None:
        """A product with synthetic dense operands to time, or None when `trial` cannot run.

        Of several sets of operands it begins with number `turn`, and after two products goes on to the next.
        """
        assert isinstance(trial, KernelTrial)
        operand = self.operand()
        if operand is None or trial.failed is not None:
            return None
        self._make_calls(operand)
        # Each twice: a product is timed after one that brought its operands back into the caches.
        each_twice = [call for call in self._calls for _ in range(2)]
        self._wait_for_threads()
        turns = itertools.islice(itertools.cycle(each_twice), 2 * (turn % len(self._calls)), None)
        way = self._way(trial, operand)
        return None if way is None else lambda: way(next(turns))

    def _make_calls(self, operand: AnyOperand) -> None:
        """Dense operands, once: every candidate meets the same memory."""
        if not self._calls:
            self._calls = self.adapter.synthetic(self.problem, operand)

    def lend_calls(self, part: TuningContext) -> None:
        """Let the context of some of op(A)'s entries time on the same dense operands: for each it has no more rows."""
        whole, operand = self.operand(), part.operand()
        if whole is not None and operand is not None:
            self._make_calls(whole)
            stored = {"transposed": False} if self.problem.transposed else {}
            part._calls = tuple(dataclasses.replace(one, rows=rows_of(operand), **stored) for one in self._calls)  # type: ignore[type-var]

    def _way(self, trial: KernelTrial, operand: AnyOperand) -> Callable[..., None] | None:
        """How `trial` computes a call as products do, into its result or into another; None when it does not."""
        if trial.schedule is not None and not self._computes(trial, operand, self._calls[0]):
            return None
        through, fast_call = self._through_python(trial, operand), self._fast_call(trial, operand)

        def way(call: Any, result: Any = None) -> None:
            if fast_call is not None and fast_call(call.kept[0], call.kept[-1] if result is None else result):
                return
            if result is not None:
                call.result = runtime_api.address_of(result)
            unwatched(through, call)

        return way

    def _through_python(self, trial: KernelTrial, operand: AnyOperand) -> Callable[[Call], object]:
        """A call as Python leads it to its kernel."""
        if trial.schedule is None:
            return lambda call: call.by_default(self.n_threads(), self.flags)
        # As in products, which make a call each for a tuned kernel: microseconds that the default one saves.
        return lambda call: self._computes(trial, operand, copy.copy(call))

    @staticmethod
    def _computes(trial: KernelTrial, operand: AnyOperand, call: Call) -> bool:
        """Whether the kernel alone has computed `call`: what looks cost is known of the matrix, and counted there."""
        return trial.run(operand, call) if trial.packed_copy is None else trial.run_as_packed(call)

    def _fast_call(self, trial: KernelTrial, operand: AnyOperand) -> Callable[..., bool] | None:
        """(B, result) -> whether it was computed by a fast call, as products of users are; None where these are not.

        Led through Python, with a call of its own each, a product takes 4 us more: as long again as a small one.
        """
        call = self._calls[0]
        if not isinstance(operand, Operand) or not isinstance(call, MatmulCall):
            return None
        lib, transposed, (B, C) = runtime_api.lib, call.transposed, call.kept
        state = DispatchState(
            self.options, transposed, C.dtype, call.n_vecs, threads=self.n_threads(), flags=self.flags
        )
        state.serving = None if trial.schedule is None else trial
        path = fast_path.beside(operand, state, call.rows, n_dims=B.ndim, n_vecs=call.n_vecs, is_guarded=False)
        if path is None:
            return None

        def fast_call(B: Any, result: Any) -> bool:
            lib.asp_pool_tune_call_intervals(0)
            try:
                return path.run(B, result, state.decisive, transposed)
            finally:
                lib.asp_pool_tune_call_intervals(1)

        return fast_call

    def served(self, trial: Trial, *, is_fresh: bool) -> Callable[..., object] | None:
        """A product as users have it, into a result made for it or into a named one; None as of `runner`.

        It may be told a turn, which says where the named result begins: within a line, in each turn in another one.
        """
        assert isinstance(trial, KernelTrial)
        operand = self.operand()
        if operand is None or trial.failed is not None:
            return None
        self._make_calls(operand)
        way, begins = self._way(trial, operand), [runtime_api.address_of(one.kept[-1]) for one in self._calls]
        calls = [copy.copy(one) for one, begin in zip(self._calls, begins, strict=True) if begin % LINE_BYTES]
        if way is None or not is_fresh:
            return None if way is None else lambda turn=0: way(calls[turn % len(calls)])
        call, held = calls[0], list[Any]([None])
        shape, dtype = call.kept[-1].shape, call.kept[-1].dtype

        def run(turn: int = 0) -> None:
            held[0] = result = memory.empty_result(shape, dtype)  # the one before goes, as with C = A @ B
            way(call, result)

        return run

    def _wait_for_threads(self) -> None:
        """Until a stall is over, as after compilations (`threads/pool.c`): small products then stay on one thread."""
        if self.n_threads() > 1 and self._patience_s > 0:
            left_s = min(runtime_api.lib.asp_pool_caution_left_ns() * 1e-9, self._patience_s)
            self._patience_s -= left_s
            time.sleep(left_s)

    @property
    def flags(self) -> int:
        """Flags of the default kernel."""
        return runtime_api.FLAG_DETERMINISTIC if self.problem.deterministic else 0

    def release(self) -> None:
        """Give the dense operands' memory back: timing is over."""
        self._calls = ()
