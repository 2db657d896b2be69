"""The tuning context of one problem on one operand: it creates trials, builds kernels, and returns runs to time."""

from __future__ import annotations

import copy
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
from autosparse.core.solver import Choice
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
from autosparse.targets.priors import number
from autosparse.tuner.search.trial import Trial
from autosparse.tuning.memory.history import TuningStats, tuning_stats_of
from autosparse.tuning.rates.probed import RatesInUse
from autosparse.tuning.rates.record import rates_in_use
from autosparse.tuning.trials import comparison
from autosparse.tuning.trials.kernel_trial import KernelTrial
from autosparse.tuning.trials.operand_adapter import LINE_BYTES, OperandAdapter, adapter_of, sized
from autosparse.tuning.trials.served import DefaultTrial, ServedTrial, served_of
from autosparse.tuning.trials.specs import spec_of, supports_of

if TYPE_CHECKING:
    from autosparse.dispatch.protocols import Kernel

PATIENCE_S: Final = 0.5
"""Maximum total seconds that a context waits for threads that are kept off busy cores."""
MIN_LIMIT_S: Final = 2.0
"""Minimum time limit in seconds of one compilation, after which it is ended as hanging."""
HANGING_COMPILER: Final = number("compiling", "patience")
"""Time limit of one compilation as a multiple of its expected time."""
_wrong: Final[dict[int, str]] = {}
"""Address -> error of each kernel of this process whose result was wrong."""


def unwatched(way: Callable[[Any], object], call: object) -> None:
    """Call ``way(call)`` for timing, without feeding the thread pool's tuner of call intervals."""
    lib = runtime_api.lib
    lib.asp_pool_tune_call_intervals(0)
    try:
        way(call)
    finally:
        lib.asp_pool_tune_call_intervals(1)


@dataclass(slots=True, eq=False)
class TuningContext:
    """Factory of trials of one problem on one operand, with what they need beside their schedule."""

    problem: Problem
    operand: Callable[[], AnyOperand | None]  # a weak reference
    options: Options
    store: cache.Store
    stats: TuningStats
    packed_copies: PackedCopyCache
    structure_version: int
    account_key: bytes = b""  # key of the problem in the file of accounts
    failures: list[str] = field(default_factory=list)
    plan_key: cache.PlanKey | None = None  # key under which the plan is stored; set on first use
    patience_s: float = math.inf  # seconds a compilation may take, if it was expected to take less
    ends_at: float = math.inf  # end of the user's budget, by time.monotonic()
    is_stale: bool = False  # the matrix's structure has changed, or its values no longer fit the storage
    _mapped: dict[Schedule, Kernel | None] = field(default_factory=dict)  # kernels that were looked up
    _calls: tuple[Call, ...] = ()  # on synthetic dense operands
    _patience_s: float = PATIENCE_S

    def __call__(self, choice: Choice) -> ServedTrial | DefaultTrial:
        """Return a trial of `choice`."""
        if choice.is_default:
            return DefaultTrial()
        if isinstance(choice.schedule, Schedule):
            return KernelTrial(choice, self)
        from autosparse.tuning.trials.solver_trial import SolverTrial  # for registered solvers and vendors' libraries

        return SolverTrial(choice, self)

    @property
    def adapter(self) -> OperandAdapter:
        """The operand adapter of the problem's operation."""
        return adapter_of(self.problem.operation)

    @property
    def rates(self) -> RatesInUse:
        """The machine's rates that cost models use, and whether tuning is to measure them."""
        return rates_in_use(self.options, self.problem.target, self.store)

    @property
    def limit_bytes(self) -> int:
        """Maximum number of bytes of packed copies of this operand."""
        return int(self.options.extra_memory * self.problem.operand_bytes)  # the option is finite

    def keep_private(self, options: Options) -> None:
        """Keep results of this context in memory only from now on, under the store that `options` select."""
        store = cache.open_store(options)
        if store is not self.store:
            known, self.store, self.options = self.stats.cost_estimates, store, self.options._replace(cache=False)
            self.stats = tuning_stats_of(store, self.problem.target)
            self.stats.cost_estimates = copy.copy(known)

    def n_threads(self) -> int:
        """Return the number of threads that a kernel may use now."""
        return self.options.threads or runtime_api.max_threads()

    def spec(self, schedule: Schedule) -> _native.KernelSpec | _native.CompositeSpec:
        """Return the specification of everything that the kernel's code depends on."""
        return spec_of(self.problem, schedule)

    def loaded(self, schedule: Schedule) -> Kernel | None:
        """Return the kernel of `schedule` if this process has loaded it, else None; looked up once."""
        if schedule not in self._mapped:
            self._mapped[schedule] = _native.loaded(self.spec(schedule), compiler=self.options.compiler)
        return self._mapped[schedule]

    def is_built(self, schedule: Schedule) -> bool:
        """Return whether the kernel of `schedule` needs no compiler."""
        spec, compiler = self.spec(schedule), self.options.compiler
        return self.loaded(schedule) is not None or _native.is_built(spec, store=self.store, compiler=compiler)

    @property
    def supports(self) -> Callable[[str, Schedule], str | None]:
        """Function (operation, schedule) that returns why no kernel can be built for the problem's dtype, or None.

        Spaces are cached under it, so it must not refer to this context.
        """
        return supports_of(self.problem.dtype)

    def build(self, trials: Sequence[Trial]) -> None:
        """Compile the kernels of several trials, in parallel."""
        ours = [trial for trial in trials if isinstance(trial, KernelTrial)]
        for trial in ours:
            trial.kernel = self.loaded(trial.schedule) if trial.fits() else None
            self._disown(trial)
        wanted = [one for one in ours if one.kernel is None and one.failed is None and not self._failed_before(one)]
        if not wanted:
            return
        specs = [self.spec(trial.schedule) for trial in wanted]
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
                continue  # its duration says nothing about other compilations
            trial.kernel = kernel
            self._disown(trial)
            # Each gets an equal share of the total, the expected cost of the next compilation on this machine.
            trial.build_s = seconds if is_new or not any(are_new) else 0.0
            if is_new or not any(are_new):
                self.stats.cost_estimates.observe("compile" if is_new else "load", seconds)
            event("build", trial.failed or "", format=trial.schedule.format, seconds=trial.build_s)

    def compile_limit_s(self) -> float:
        """Return the maximum seconds of one compilation."""
        return max(self.patience_s, MIN_LIMIT_S, HANGING_COMPILER * self.stats.cost_estimates.price_s("compile"))

    def _compilers_end(self) -> float:
        """Return the time at which compilers are ended: the budget's end, but at least twice their expected seconds."""
        return max(self.ends_at, time.monotonic() + 2.0 * self.stats.cost_estimates.price_s("compile"))

    def _failed_before(self, trial: KernelTrial) -> bool:
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
        """If the kernel of `trial` is known to compute wrong results, remove it and set the trial's `failed`."""
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
        """Record that the kernel of `trial` computes a wrong result, so that it is never used again."""
        reason = f"the kernel computes something else than the default kernel: {difference}"
        _wrong[trial.code_address] = reason
        self._remember_failure(trial, reason)
        warn_once(FallbackWarning, "wrong kernel", FallbackWarning.wrong_kernel(self.compiler_id(), difference))

    def _remember_failure(self, trial: KernelTrial, reason: str) -> None:
        trial.failed = reason
        self.failures.append(reason)
        key = self.spec(trial.schedule).key()
        failure = cache.Failure(reason=reason, compiler=self.compiler_id(), failed_at=time.time())
        self.store.save("failure", key, failure.to_record())
        event("fallback", reason, key=key)

    def packing_s(self) -> float:
        """Return the expected seconds of packing the operand in any format."""
        n_entries = self.problem.pattern.nnz
        return self.stats.cost_estimates.price_s(sized("pack", n_entries), n_entries)

    def compare_price_s(self, schedule: Schedule | None = None) -> float:
        """Return the expected seconds of comparing a kernel's result with the default kernel's."""
        return self.stats.cost_estimates.price_s(*comparison.work(self.problem, schedule))

    def compiler_id(self) -> str:
        """Return the identity of the compiler in failure records."""
        return _native.compiler_id(self.options.compiler)

    def runner(self, trial: Trial, turn: int = 0) -> Callable[[], object] | None:
        """Return a function that runs one product on synthetic dense operands; None if `trial` cannot run.

        It starts with set number `turn` of the operands, and changes to the next set after every two products.
        """
        operand = self.operand()
        if operand is None or trial.failed is not None:
            return None
        self._make_calls(operand)
        # Each twice: a product is timed after one that warms the caches with its operands.
        each_twice = [call for call in self._calls for _ in range(2)]
        self._wait_for_threads()
        turns = itertools.islice(itertools.cycle(each_twice), 2 * (turn % len(self._calls)), None)
        way = self._way(trial, operand)
        return None if way is None else lambda: way(next(turns))

    def lent(self) -> Call | None:
        """Return a call on synthetic dense operands that products are timed with, if there is one now."""
        return self._calls[0] if self._calls else None

    def _make_calls(self, operand: AnyOperand) -> None:
        """Create the calls on synthetic dense operands once, so that all candidates read the same memory."""
        if not self._calls:
            self._calls = self.adapter.synthetic(self.problem, operand)

    def _way(self, trial: Trial, operand: AnyOperand) -> Callable[..., None] | None:
        """Return a function that computes a call with `trial` as a user's product does; None if `trial` cannot.

        Its second argument is the result array, by default the call's own.
        """
        kernel = served_of(trial)
        if kernel is not None and not self._computes(kernel, operand, self._calls[0]):
            return None
        through, fast_call = self._through_python(kernel, operand), self._fast_call(kernel, operand)

        def way(call: Any, result: Any = None) -> None:
            if fast_call is not None and fast_call(call.kept[0], call.kept[-1] if result is None else result):
                return
            if result is not None:
                call.result = runtime_api.address_of(result)
            unwatched(through, call)

        return way

    def _through_python(self, trial: ServedTrial | None, operand: AnyOperand) -> Callable[[Call], object]:
        """Return a function that dispatches a call to the kernel in Python."""
        if trial is None:
            return lambda call: call.by_default(self.n_threads(), self.flags)
        # Products by tuned kernels create a call object each, which the default kernel avoids; count it (microseconds).
        return lambda call: self._computes(trial, operand, copy.copy(call))

    @staticmethod
    def _computes(trial: ServedTrial, operand: AnyOperand, call: Call) -> bool:
        """Run `call` by the kernel, without checks for writes; return whether the kernel computed it."""
        return (
            trial.run_as_packed(call)
            if isinstance(trial, KernelTrial) and trial.packed_copy
            else trial.run(operand, call)
        )

    def _fast_call(self, trial: ServedTrial | None, operand: AnyOperand) -> Callable[..., bool] | None:
        """Return a function (B, result) -> bool that calls `trial` as products' fast call does; None if it cannot.

        Dispatch in Python takes 4 µs more per product, about as long as a small product itself.
        """
        call = self._calls[0]
        if not isinstance(operand, Operand) or not isinstance(call, MatmulCall):
            return None
        lib, transposed, (B, C) = runtime_api.lib, call.transposed, call.kept
        state = DispatchState(
            self.options, transposed, C.dtype, call.n_vecs, threads=self.n_threads(), flags=self.flags
        )
        state.serving = trial
        path = fast_path.beside(operand, state, call.rows, n_dims=B.ndim, n_vecs=call.n_vecs, is_guarded=False)
        if path is None:
            return None

        def fast_call(B: Any, result: Any) -> bool:
            lib.asp_pool_tune_call_intervals(0)
            try:
                return path.run(operand, B, result, state.decisive, transposed)
            finally:
                lib.asp_pool_tune_call_intervals(1)

        return fast_call

    def served(self, trial: Trial, *, is_fresh: bool) -> Callable[..., object] | None:
        """Return a function that runs one product as users do: into a new array if `is_fresh`, else into a given one.

        None if `trial` cannot run. The function's argument, a turn, selects the alignment of the given array.
        """
        operand = self.operand()
        if operand is None or trial.failed is not None:
            return None
        self._make_calls(operand)
        way, begins = self._way(trial, operand), [runtime_api.address_of(one.kept[-1]) for one in self._calls]
        shifted = [copy.copy(one) for one, begin in zip(self._calls, begins, strict=True) if begin % LINE_BYTES]
        calls = shifted or [copy.copy(self._calls[0])]  # results without elements may all begin at a line
        if way is None or not is_fresh:
            return None if way is None else lambda turn=0: way(calls[turn % len(calls)])
        call, held = calls[0], list[Any]([None])
        shape, dtype, transposed = call.kept[-1].shape, call.kept[-1].dtype, getattr(call, "transposed", False)

        def run(turn: int = 0) -> None:  # the previous result is freed, as with C = A @ B
            held[0] = result = memory.empty_result(shape, dtype, transposed)
            way(call, result)

        return run

    def _wait_for_threads(self) -> None:
        """Wait until the thread pool recovers from a stall, as after compilations; until then it runs serially."""
        if self.n_threads() > 1 and self._patience_s > 0:
            left_s = min(runtime_api.lib.asp_pool_caution_left_ns() * 1e-9, self._patience_s)
            self._patience_s -= left_s
            time.sleep(left_s)

    @property
    def flags(self) -> int:
        """Flags with which the default kernel is called."""
        return runtime_api.FLAG_DETERMINISTIC if self.problem.deterministic else 0

    def release(self) -> None:
        """Free the synthetic dense operands after timing."""
        self._calls = ()
