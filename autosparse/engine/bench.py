"""The bench: makes the trials of one problem on one operand, builds their kernels and gives out runs to time."""

from __future__ import annotations

import copy
import itertools
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from autosparse import _native, cache
from autosparse._native import runtime_api
from autosparse.config import Options
from autosparse.engine.calls import Call
from autosparse.engine.entry import may_serve
from autosparse.engine.experience import Experience
from autosparse.engine.handling import HANDLINGS, Handling
from autosparse.engine.shelf import Shelf
from autosparse.engine.specs import spec_of, supports_of
from autosparse.engine.trials import KernelTrial
from autosparse.errors import BuildError, FallbackWarning, RecordError, warn_once
from autosparse.log import event
from autosparse.operand import Operand
from autosparse.problem import Problem
from autosparse.schedule import SuperSchedule
from autosparse.tuner.trial import Trial
from autosparse.unfolding import AnyOperand

PATIENCE_S: Final = 0.5
"""Of a bench, all in all: how long it waits for threads that keep away from busy cores."""


@dataclass(slots=True, eq=False)
class Bench:
    """Makes trials of one problem on one operand; what they need beside their schedule."""

    problem: Problem
    operand: Callable[[], AnyOperand | None]  # a weak reference
    options: Options
    store: cache.Store
    experience: Experience
    shelf: Shelf
    structure_version: int
    failures: list[str] = field(default_factory=list)
    plan_key: str = ""  # under which the plan is remembered, once it was asked for
    is_stale: bool = False  # the matrix has another structure than the problem by now
    _mapped: dict[int, tuple[Any, Any]] = field(default_factory=dict)  # schedules, kept alive, and their kernels
    _calls: tuple[Call, ...] = ()  # on synthetic dense operands
    _patience_s: float = PATIENCE_S

    def __call__(self, schedule: SuperSchedule | None) -> KernelTrial:
        """A trial of `schedule`."""
        return KernelTrial(schedule, self)

    @property
    def handling(self) -> Handling:
        """What the operation does differently."""
        return HANDLINGS[self.problem.operation]

    @property
    def limit_bytes(self) -> int:
        """Most bytes of packed copies of this operand."""
        return int(self.options.extra_memory * self.problem.operand_bytes)

    def n_threads(self) -> int:
        """Threads a kernel may use now."""
        return self.options.threads or runtime_api.max_threads()

    def spec(self, schedule: SuperSchedule) -> Any:
        """What the kernel's code depends on."""
        return spec_of(self.problem, schedule)

    def loaded(self, schedule: SuperSchedule) -> Any:
        """The kernel of `schedule` where this process has it mapped, looked up once."""
        if id(schedule) not in self._mapped:
            kernel = _native.loaded(self.spec(schedule), compiler=self.options.compiler)
            self._mapped[id(schedule)] = schedule, kernel
        return self._mapped[id(schedule)][1]

    def is_built(self, schedule: SuperSchedule) -> bool:
        """Whether the kernel of `schedule` needs no compiler."""
        spec, compiler = self.spec(schedule), self.options.compiler
        return self.loaded(schedule) is not None or _native.is_built(spec, store=self.store, compiler=compiler)

    @property
    def supports(self) -> Callable[[str, SuperSchedule], str | None]:
        """See `supports_of`: spaces are remembered by this function, which must not keep a bench alive."""
        return supports_of(self.problem.dtype)

    def build(self, trials: Sequence[Trial]) -> None:
        """Compile several kernels, in parallel where there is more than one."""
        ours = [trial for trial in trials if isinstance(trial, KernelTrial) and trial.schedule is not None]
        for trial in ours:
            trial.kernel = self.loaded(trial.schedule) if trial.schedule and trial.fits() else None
        wanted = [one for one in ours if one.kernel is None and one.failed is None and not self._failed_before(one)]
        if not wanted:
            return
        specs = [self.spec(trial.schedule) for trial in wanted if trial.schedule is not None]
        compiler = self.options.compiler
        are_new = [not _native.is_built(spec, store=self.store, compiler=compiler) for spec in specs]
        start_s = time.perf_counter()
        kernels = _native.build_many(specs, store=self.store, compiler=compiler)
        seconds = (time.perf_counter() - start_s) / max(1, sum(are_new) or len(specs))
        for trial, kernel, is_new in zip(wanted, kernels, are_new, strict=True):
            if isinstance(kernel, BuildError):
                self._note_failure(trial, kernel)
            else:
                trial.kernel = kernel
            # Their share of the time that all took together: what the next one will cost on this machine.
            trial.build_s = seconds if is_new or not any(are_new) else 0.0
            if is_new or not any(are_new):
                self.experience.observe("compile" if is_new else "load", seconds)
            event("build", trial.failed or "", format=trial.schedule and trial.schedule.format, seconds=trial.build_s)

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

    def _note_failure(self, trial: KernelTrial, err: BuildError) -> None:
        assert trial.schedule is not None
        reason = str(err).split("\n", 1)[0]
        trial.failed = reason
        self.failures.append(reason)
        failure = cache.Failure(reason=reason, compiler=self.compiler_id(), failed_at=time.time())
        self.store.save("failure", self.spec(trial.schedule).key(), failure.to_record())
        event("fallback", reason, key=err.key)
        warn_once(FallbackWarning, "build", f"a kernel could not be built, the default kernel is used: {reason}")

    def compiler_id(self) -> str:
        """Names the compiler in failure records."""
        return _native.compiler_id(self.options.compiler)

    def runner(self, trial: Trial) -> Callable[[], object] | None:
        """A product with synthetic dense operands to time, or None when `trial` cannot run."""
        assert isinstance(trial, KernelTrial)
        operand = self.operand()
        if operand is None or trial.failed is not None:
            return None
        if not self._calls:  # kept, so that every candidate meets the same memory
            self._calls = self.handling.synthetic(self.problem, operand)
        # Each twice: a product is timed after one that brought its operands back into the caches.
        each_twice = [call for call in self._calls for _ in range(2)]
        self._wait_for_threads()
        turns = itertools.islice(itertools.cycle(each_twice), 2 * (trial.n_timed % len(self._calls)), None)
        trial.n_timed += 1
        if trial.schedule is None:
            return lambda: next(turns).by_default(self.n_threads(), self.flags)
        if not trial.run(operand, self._calls[0]):
            return None
        bound, rows = trial.bound, self._calls[0].rows
        if isinstance(operand, Operand) and may_serve(trial, operand, rows):
            # Its products go past Python (`engine.entry`), as the default kernel's do.
            return lambda: next(turns).by(bound, self.n_threads())
        # As in products, which make a call each for a tuned kernel: microseconds that the default one saves.
        return lambda: trial.run(operand, copy.copy(next(turns)))

    def _wait_for_threads(self) -> None:
        """Until a stall is over, as after compilations (`runtime/pool.c`): small products then stay on one thread."""
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
