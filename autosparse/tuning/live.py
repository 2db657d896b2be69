"""Live tuning: after a product, the next tuning step runs if the products so far have paid for it.

Candidates are timed on the user's own products, and their results are correct. So a sample costs only the time by which
it exceeds the best kernel's.
"""

from __future__ import annotations

import dataclasses
import math
import threading
import time
from collections.abc import Callable
from functools import partial
from typing import Any, Final, TypeAlias

from autosparse import forking
from autosparse.containment import contained
from autosparse.core.plan import Plan
from autosparse.core.values import dataclass, field
from autosparse.dispatch.protocols import Serving
from autosparse.dispatch.state import FOREVER_NS, DispatchState
from autosparse.log import event
from autosparse.notices import FallbackWarning, warn_once
from autosparse.operands.csr import expected_look_s
from autosparse.operands.unfolding import AnyOperand
from autosparse.targets.priors import number
from autosparse.tuner.search.loop import StepLoop
from autosparse.tuner.search.trial import Pause, Sample, Step, Work
from autosparse.tuning import amortization, background
from autosparse.tuning.amortization import Outlook, TuningAccount
from autosparse.tuning.confirmation import MAX_REFUSALS, CheckedWidth
from autosparse.tuning.rates.record import KIND as RATES_STEP
from autosparse.tuning.session import TOO_FEW, TuningSession
from autosparse.tuning.trials.served import ServedTrial, served_of
from autosparse.tuning.trials.service import Service

WAIT_S: Final = number("background", "wait of a product s")
"""Seconds a product waits for a step that may hang, such as a compiler; then the background thread continues it."""
Product: TypeAlias = tuple[int, Serving | None, float]
"""A finished product: its number of columns, the tuned kernel (None: the default kernel), and its seconds."""
Perform: TypeAlias = Callable[[], "float | None"]
"""Function that performs a step and returns its seconds, or None when the step is skipped."""


@dataclass(slots=True, eq=False)
class LiveTuner:
    """Tuner of one dispatch state: runs single tuning steps and selects the kernel of the next product.

    After a product, it performs at most one piece of work that is paid for.
    """

    state: DispatchState
    tuning_s: float = 0.0
    session: TuningSession | None = None
    loop: StepLoop | None = None
    failure: str | None = None
    clock: Callable[[], float] = time.perf_counter
    operand: Callable[[], AnyOperand | None] = lambda: None  # a weak reference
    _product: Product | None = None  # the product that a sample may be taken from
    _worked_s: float = 0.0  # seconds of work since the last product
    _may_work: bool = False  # no work has run since the last product
    _installed_s: float = 0.0  # default_s of a plan that was found elsewhere
    _n_refusals: int = 0
    _paused_at: int = 0  # n_calls when the current pause began
    resume_at: int = 0  # n_calls when it ends
    _pause: Pause | None = None  # the pause that resume_at ends
    _served_sample: Sample | None = None  # the sample whose trial serves
    _looked: tuple[int, Serving | None] = (0, None)  # n_calls at the last `look`, and the kernel of its product
    _is_repeated: bool = False  # the kernel of the last product computed the one before it
    service: Service | None = None  # choice of the session's incumbent or its fallback
    _in_background: bool = False
    _checked: CheckedWidth = field(default_factory=CheckedWidth)
    _lock: threading.Lock = field(default_factory=forking.lock)
    _handed_over: threading.Event | None = None  # set when the background thread ends the step it was given last

    @property
    def pending(self) -> Step | None:
        """Next step of tuning; None if there is none."""
        return self.loop.pending if self.loop is not None else None

    @property
    def waits_for_pay(self) -> bool:
        """Return whether the next step is work that products must pay for first; see `dispatch.protocols.Tuning`."""
        return isinstance(self.pending, Work) and not self._in_background

    @property
    def default_s(self) -> float:
        """Seconds of one product of width n_dense_cols by the default kernel; 0 if unknown."""
        session = self.session
        measured = session.search or session.plan if session is not None else None
        return (measured.default_s if measured is not None else None) or self._installed_s

    @property
    def is_stale(self) -> bool:
        """Return whether the matrix no longer has the structure of the tuned problem."""
        context = self.session.context if self.session is not None else None
        return context is not None and context.is_stale

    # -- accounts -----------------------------------------------------------------------------------------------

    def account(self) -> TuningAccount:
        """Return the account of this problem: products, and seconds in products, spent on tuning, and saved."""
        self.state.commit()
        looked_s = self.service.choice.spent_s if self.service is not None else 0.0
        tuned_s, early = self.session.incumbent_s if self.session is not None else 0.0, self.state.early
        served_s, product_s = self.state.tuned_ns * 1e-9, self.state.product_ns * 1e-9
        saved_s = amortization.saved_s(served_s, looked_s=looked_s, tuned_s=tuned_s, default_s=self.default_s)
        saved_s = early.saved_s(self.state.tuned_ns) if early is not None and not tuned_s else saved_s
        return TuningAccount(n_calls=self.state.n_calls, product_s=product_s, tuning_s=self.tuning_s, saved_s=saved_s)

    def spent_and_saved_s(self) -> tuple[float, float]:
        """Return the seconds spent on tuning and saved by it; see `dispatch.protocols.Tuning`."""
        return self.tuning_s, max(0.0, self.account().saved_s)

    def outlook(self) -> Outlook:
        """Return the expected number of products, gain and default time, on which decisions are based."""
        session, options = self.session, self.state.options
        n_default = self.state.n_calls - self.state.n_tuned
        mean_s = (self.state.product_ns - self.state.tuned_ns) * 1e-9 / n_default if n_default > 0 else 0.0
        default_s = self.default_s or mean_s
        gain, look_s = session.gain if session else 0.1, expected_look_s(self.operand())
        return Outlook(
            # No product waits for the background thread, so its budget may grow to the price itself (ski rental).
            overhead=1.0 if options.background and isinstance(self.pending, Work) else options.overhead,
            total_runs=session.total_runs if session else None,
            # Checks for writes reduce the gain: every product of arrays that others can write needs one.
            gain=max(0.0, gain - look_s / default_s) if look_s and default_s else gain,
            default_s=default_s,
            expected=self.state.expected,
            solver_s=None if self.state.solver_ns is None else self.state.solver_ns * 1e-9,
        )

    # -- steps ---------------------------------------------------------------------------------------------

    def look(self, n_vecs: int, served_by: Serving | None, took_ns: int) -> None:
        """Continue tuning after a product of `n_vecs` columns, which `served_by` computed in `took_ns`."""
        if self._in_background or not self._lock.acquire(blocking=False):
            return
        start_s, self._worked_s = self.clock(), 0.0
        (n_calls, before), self._looked = self._looked, (self.state.n_calls, served_by)
        self._is_repeated = served_by is (self.state.serving if self.state.n_calls > n_calls + 1 else before)
        try:
            if self.session is not None:
                self.session.keep_private(self.state.options)
            self._go_on((n_vecs, served_by, took_ns * 1e-9), may_work=True)
            self._recheck()
            # The time between steps counts too: looking up what is compiled, ranking candidates.
            self._spend(max(0.0, self.clock() - start_s - self._worked_s))
        except contained() as err:
            self._give_up(err)
        except BaseException:
            self._stop()  # Ctrl-C in a step ends the generator; the incumbent continues to serve
            raise
        finally:
            self._lock.release()
        if (handed_over := self._handed_over) is not None and not self.state.options.background:
            handed_over.wait(WAIT_S)  # returns at once unless the step runs

    def _go_on(self, product: Product | None = None, *, may_work: bool = False) -> None:
        """Run the steps that may run now; set the kernel of the next product and the time of the next `look`."""
        self._product, self._may_work = product, may_work
        loop = self.loop
        while loop is not None and loop.pending is not None and (perform := self._permit(loop.pending)) is not None:
            loop.answer(perform())
        if self.pending is None:  # done
            self._look_at(max(self.state.product_ns * 2e-9, 1e-2))

    def _permit(self, step: Step) -> Perform | None:
        """Return a function that performs `step` now; None: not yet, and the kernel that serves until then is set."""
        product, self._product = self._product, None
        if isinstance(step, Pause):
            return self._pause_or_end(step)
        if isinstance(step, Sample):
            # After a pause, threads sleep and a short product is not parallel: warm-up products precede the sample.
            warmup_s = step.warmup_s if step is not self._served_sample else 0.0
            sample = self._sample_of(step, *product) if product is not None and not warmup_s else None
            self._served_sample = None if sample is None else self._served_sample
            if sample is None and self._affordable(step):
                self._served_sample = step
                self._serve_next(served_of(step.trial), for_s=warmup_s)
            return sample
        if not self._affordable(step):
            return (lambda: None) if step.kind == RATES_STEP else None
        if not self._may_work:
            self._serve_next(self._incumbent())
            return None
        self._may_work = False
        if self.state.options.background or step.may_hang:
            self._hand_over(step)
            return None
        return partial(self._done, step)

    def _done(self, step: Work) -> float:
        """Perform a piece of work, learn from its seconds, and return them."""
        start_s = self.clock()
        step.do()
        seconds = self.clock() - start_s
        self._learn(step, seconds)
        return seconds

    def _serve_next(self, trial: ServedTrial | None, *, for_s: float = 0.0) -> None:
        """Make `trial` the kernel of the next products, for `for_s` seconds or one product; then call `look` again."""
        self.state.serving = trial
        self.state.next_look_ns = self.state.product_ns + for_s * 1e9

    def _affordable(self, step: Work | Sample) -> bool:
        """Return whether tuning may spend the price of `step` now; if not, set the time of the next `look`."""
        is_released = self.session is not None and self.session.is_released  # the incumbent serves after the race
        if is_released or (isinstance(step, Sample) and step.is_check and self.state.options.overhead > 0):
            return True  # a slow plan saves nothing that could pay for its check
        account, outlook, earlier = self.account(), self.outlook(), self.state.account
        if earlier is not None and earlier.is_repaid:
            account = dataclasses.replace(account, saved_s=0.0)
        out_of_budget = self.tuning_s + step.price_s > self.state.options.budget_s
        known: dict[str, Any] = {"account": account, "outlook": outlook}
        known |= {"path_price_s": step.path_price_s, "in_advance": step.in_advance}
        pays = amortization.weigh(step.price_s, **known).pays
        if not out_of_budget and (pays or amortization.is_earned(step.price_s, earlier, **known)):
            return True
        look_s = amortization.next_look_s(step.price_s, **known)
        # Call `look` again after twice the time at the latest: calls must be counted, and estimates change.
        look_s = max(account.product_s * 1.02, min(look_s, account.product_s * 2.0 + 1e-3))
        self._look_at(account.product_s * 4.0 if out_of_budget else look_s)
        return False

    def _look_at(self, product_s: float) -> None:
        self.state.serving = self._incumbent()
        self.state.next_look_ns = min(FOREVER_NS, product_s * 1e9) if math.isfinite(product_s) else FOREVER_NS

    def _pause_or_end(self, step: Pause) -> Perform | None:
        """Return a function that ends the pause; before its end return None and set the time of the next `look`."""
        if step is not self._pause:
            self._pause, self._paused_at = step, self.state.n_calls
            self.resume_at = self._paused_at + step.n_calls
        if self.state.n_calls >= self.resume_at:
            return lambda: None
        self.state.serving = self._incumbent()
        mean_ns = self.state.product_ns / max(1, self.state.n_calls)
        n_calls = min(self.resume_at - self.state.n_calls, max(1, self.state.n_calls - self._paused_at))
        self.state.next_look_ns = self.state.product_ns + n_calls * mean_ns
        return None

    def _sample_of(self, step: Sample, n_vecs: int, served_by: Serving | None, took_s: float) -> Perform | None:
        """Return a function giving the seconds of the product just computed, if it counts; None if unfit for `step`."""
        if not (self._checked.is_sample(n_vecs) if step.is_check else n_vecs == self.state.n_dense_cols):
            return None
        wanted: object = served_of(step.trial)
        if served_by is not wanted:
            self._n_refusals += int(self.state.serving is wanted and wanted is not None)
            if self._n_refusals < MAX_REFUSALS:
                return None
        self._n_refusals = 0
        if served_by is not wanted:
            return lambda: None
        if isinstance(served_by, ServedTrial):
            self._spend(served_by.looked_ns * 1e-9)
            took_s = max(1e-9, took_s - served_by.looked_ns * 1e-9)  # write checks are accounted for separately
        incumbent_s = self.session.incumbent_s if self.session is not None else 0.0
        known = [time_s for time_s in (self.outlook().default_s, incumbent_s) if time_s]
        self._spend(max(0.0, took_s - min(known, default=took_s)))
        return (lambda: took_s) if self._is_repeated else None

    def _incumbent(self, *, is_over: bool = False) -> ServedTrial | None:
        """Return the kernel that serves (None: default): the incumbent, or a fallback if its copy does not pay."""
        if (session := self.session) is None:
            self.service = None
            return None
        found, recalled = session.incumbent, session.recalled
        if recalled is not None and (found is not None or is_over or self.pending is None):
            if found is not None and found.schedule == recalled.schedule:
                found.service = found.service or recalled.service  # keep the known cost of checks for writes
            if recalled is not found:
                recalled.drop()  # the incumbent shares the packed copy, or nothing is faster than the default
            session.recalled = None
        incumbent = found or session.recalled
        if incumbent is None or incumbent.reads_live:
            self.service = None
            return incumbent
        in_place_s = session.plan.in_place_s if session.in_place is not None else None
        fallback_s, tuned_s = in_place_s or self.default_s, session.incumbent_s
        gain_s = fallback_s - tuned_s if tuned_s and fallback_s else None
        self.service = service = Service.of(incumbent, session.in_place, self.state, self.operand(), gain_s)
        return incumbent if service.choice.serves_packed and incumbent.ready else session.in_place

    def _recheck(self) -> None:
        """Check again which kernel of the plan serves, where the packed copy did not pay."""
        if self.service is not None and not self._in_background:
            self.service.recheck(self.operand())
            if self._served_sample is None or self.pending is not self._served_sample:
                self.state.serving = self._incumbent()

    def lend(self, state: DispatchState) -> None:
        """Install this tuner's plan in another state of the same problem; see `dispatch.protocols.Tuning`."""
        borrower = state.live_tuner if isinstance(state.live_tuner, LiveTuner) else LiveTuner(state)
        if self.session is None or (borrower.session is not None and borrower.session.is_at_work):
            return
        if (lent := self.session.lent(state.options, found_under=self.state.options)) is not None:
            borrower.operand, state.live_tuner = self.operand, borrower
            borrower.install(lent)

    def _learn(self, step: Work, seconds: float) -> None:
        """Add the seconds of a finished `step` to the time spent, to price estimates and to the log."""
        self._worked_s += seconds
        self._spend(seconds)
        context = self.session.context if self.session is not None else None
        if context is not None:
            context.stats.cost_estimates.observe(step.kind, seconds, step.units)
            context.stats.flush_if_due()
        event("tune", step.what, step=step.kind, seconds=seconds, price=step.price_s)

    def _spend(self, seconds: float) -> None:
        self.tuning_s += seconds
        if self.session is not None:
            self.session.tuning_s = self.tuning_s

    def begin(self, session: TuningSession) -> None:
        """Start `session`, whose steps then run between products."""
        self.session, self.loop = session, StepLoop(session.steps())
        self.loop.answer(None)

    def install(self, session: TuningSession) -> None:
        """Use the plan of a finished session from the next product on, which begins to watch it; end live tuning."""
        with self._lock:
            old = self.session.incumbent if self.session is not None else None
            if old is not None and old is not session.incumbent:
                old.drop()
            if self.loop is not None and not self._in_background:
                self.loop.steps.close()
            self._installed_s = session.plan.default_s or self.default_s
            self.session, self.loop = session, StepLoop(session.steps())
            self.state.serving, self.state.next_look_ns = self._incumbent(is_over=True), self.state.product_ns
            self.state.commit()

    def current_plan(self) -> Plan:
        """Return the plan that is in use now."""
        if (early := self.state.early) is not None and early.is_won and self.state.serving is self.state.recalled:
            won: Plan = early.plan(self.state)
            return won
        return self.session.current_plan() if self.session is not None else TOO_FEW

    def _stop(self) -> None:
        """End tuning of this problem; the incumbent, if any, continues to serve."""
        loop, self.loop = self.loop, None
        if loop is not None and not self._in_background:
            loop.steps.close()
        self._look_at(math.inf)

    def forget_threads(self) -> None:
        """Drop a step that another thread ran at the fork; in the child the incumbent continues to serve."""
        operand = self.operand()
        if self._in_background and operand is not None:
            operand.unpin()
        self._handed_over = None  # the parent's thread may have held the lock inside the event
        if self._in_background or forking.was_held(self._lock):
            self._in_background = False
            self.loop = None  # not closed: Python regards its frame as running
            self._look_at(math.inf)

    def _give_up(self, err: Exception) -> None:
        self.failure = reason = f"{type(err).__name__}: {err}"
        event("fallback", reason, error=err)
        warn_once(FallbackWarning, "tuning", f"tuning failed; products use the best kernel found so far: {reason}")
        self._stop()

    def _hand_over(self, step: Work) -> None:
        """Run the step in the background thread."""
        self._in_background, self._handed_over = True, threading.Event()
        self._look_at(math.inf)
        operand, loop = self.operand(), self.loop
        assert loop is not None
        if operand is not None:
            operand.pin()
        if not background.submit(partial(self._do_in_background, step, operand, loop)):  # the process is ending
            self._end_background_step(operand)

    def _do_in_background(self, step: Work, operand: AnyOperand | None, loop: StepLoop) -> None:
        try:
            start_s = self.clock()
            background.perform(step, operand)
            seconds = self.clock() - start_s
            with self._lock:
                if self.loop is not loop:  # the user called `tune` meanwhile
                    loop.steps.close()
                    return
                self._learn(step, seconds)
                loop.answer(seconds)
                self._go_on()
                self.state.commit()
        except contained() as err:
            self._give_up(err)
        finally:
            self._end_background_step(operand)

    def _end_background_step(self, operand: AnyOperand | None) -> None:
        if operand is not None:
            operand.unpin()
        handed_over, self._in_background = self._handed_over, False
        if handed_over is not None:
            handed_over.set()
