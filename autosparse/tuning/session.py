"""Live tuning of one problem in single steps: look up a plan, search for one, then watch the plan in service."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Callable
from functools import partial
from typing import Final

from autosparse import _native
from autosparse._native import memory
from autosparse.config import Effort, Options
from autosparse.core.composite import Schedule
from autosparse.core.plan import Plan
from autosparse.core.solver import DEFAULT
from autosparse.core.values import dataclass
from autosparse.dispatch.protocols import FirstRace
from autosparse.log import event
from autosparse.targets.priors import number
from autosparse.tuner import Search
from autosparse.tuner.search.loop import StepLoop
from autosparse.tuner.search.outcome import plan_of
from autosparse.tuner.search.search import MAX_PAIR_BYTES
from autosparse.tuner.search.trial import Sample, Steps, Work
from autosparse.tuner.space import spaces
from autosparse.tuning.amortization import UNKNOWN_GAIN
from autosparse.tuning.confirmation import fastest_in_place, watch
from autosparse.tuning.memory import notes
from autosparse.tuning.memory.history import TuningStats
from autosparse.tuning.memory.plan_lookup import (
    expected_gain,
    is_allowed,
    recall,
    remember,
    remember_measured,
    supported,
)
from autosparse.tuning.planner import adoption, default_plan
from autosparse.tuning.rates.steps import rates_step
from autosparse.tuning.solvers.candidates import search_for
from autosparse.tuning.trials.context import TuningContext
from autosparse.tuning.trials.operand_adapter import LARGE_ENTRIES
from autosparse.tuning.trials.served import ServedTrial, served_of

TOO_FEW: Final = default_plan("not tuned: too few products so far to pay for it")
"""Plan of a problem before its first search."""


@dataclass(slots=True)
class TuningSession:
    """A search for a plan in steps that run one at a time; `incumbent` may serve products at any moment.

    `steps` yields Work, Sample and Pause. `make_context` hashes nothing but builds the Problem, so it runs as a step.
    """

    make_context: Callable[[], TuningContext]
    effort: Effort
    stats: TuningStats
    operand_bytes: int
    total_runs: float | None = None  # from a hint or the accounts of earlier processes
    context: TuningContext | None = None
    search: Search | None = None
    plan: Plan = TOO_FEW
    incumbent: ServedTrial | None = None  # None: the default kernel
    in_place: ServedTrial | None = None  # serves where a packed copy does not pay; None: the default kernel serves
    recalled: ServedTrial | None = None  # served before the session began, and until it has an incumbent or is over
    early: FirstRace | None = None  # race before the session began, which `recalled` won
    gain: float = UNKNOWN_GAIN
    next_price_s: float = 0.0  # price of the step that the search waits for
    tuning_s: float = 0.0  # spent so far; the live tuner keeps it up to date
    _known: Plan | None = None
    is_finished: bool = False  # a plan exists, and only watching it is left to do

    @property
    def is_at_work(self) -> bool:
        """Return whether the session has found a plan or is searching for one."""
        return self.is_finished or self.search is not None or self.incumbent is not None

    @property
    def is_released(self) -> bool:
        """Return whether the incumbent released its packed copy for a candidate, and serves again after their race."""
        return self.incumbent is not None and self.incumbent.failed is None and not self.incumbent.ready

    @property
    def incumbent_s(self) -> float:
        """Seconds of one product by `incumbent`, timed beside the default kernel; 0 if unknown."""
        if self.incumbent is None:
            return 0.0
        if self.search is not None:
            return self.search.measured_s.get(self.search.incumbent.choice, 0.0)
        return (self.plan.measured_s or 0.0) if self.plan.default_s else 0.0

    def keep_private(self, options: Options) -> None:
        """Stop writing results to disk, now and later, under the option ``cache=False``."""
        if self.context is not None and not options.cache:
            self.context.keep_private(options)

    def lent(self, options: Options, *, found_under: Options) -> TuningSession | None:
        """Return a session under `options` that starts from this session's plan; None if the plan may not serve there.

        `found_under`: the options under which the plan was found.
        """
        if self.incumbent is None or not self.is_finished:
            return None
        if not is_allowed(self.incumbent.choice, options, found_under=found_under):
            return None
        incumbent, in_place = (self._twin(one) for one in (self.incumbent, self.in_place))
        if incumbent is None:
            return None
        return dataclasses.replace(self, search=None, tuning_s=0.0, incumbent=incumbent, in_place=in_place)

    def _twin(self, trial: ServedTrial | None) -> ServedTrial | None:
        """Return a new ready trial of the schedule of `trial` on the same packed copy; None if that fails."""
        if trial is None or self.context is None or not trial.ready:
            return None
        other = self.context(trial.choice)
        other.build()
        other.pack()
        return served_of(other) if other.ready else None

    def current_plan(self) -> Plan:
        """Return the plan that is in use now."""
        if self.search is not None and not self.is_finished:
            return plan_of(self.search, tune_s=self.tuning_s)
        return self.plan

    def steps(self) -> Steps:
        """Yield the steps of the session: look up a plan, adopt it or search, then watch."""
        if self.is_finished:
            yield from self._watch()
            return
        yield self.stats.work("hash", self._identify, units=self.operand_bytes, in_advance=True)
        assert self.context is not None
        if self._known is not None and not self._known.is_default:
            self.plan = default_plan("a remembered plan exists; it is loaded when products have paid for it")
            yield from self._load(partial(getattr, _native, "supports"))
            self._known = supported(self.context, self._known)
        known = self._known
        if known is not None and known.satisfies(self.effort):
            yield from self._adopt(self.context, known)
        else:
            yield from self._find(self.context, known)
        yield from self._watch()

    def _identify(self) -> None:
        self.context = self.make_context()
        self.context.patience_s = 0.0  # no user waits: a compiler's limit follows from its expected time alone
        self._known = recall(self.context)
        self.gain = expected_gain(self.context)
        if self._known is not None and self._known.measured_s and self._known.default_s:
            self.gain = max(0.0, 1.0 - self._known.measured_s / self._known.default_s)

    def _load(self, load: Callable[[], object]) -> Steps:
        """Yield one step that imports what building kernels needs; none if this process has imported it."""
        if "autosparse._native.kernels.implementations" not in sys.modules:
            yield self.stats.work("import", load, in_advance=True)

    def _adopt(self, context: TuningContext, known: Plan) -> Steps:
        self.is_finished = True
        decision = yield from adoption(context, known)
        self.plan, self.incumbent, self.in_place = decision.plan, decision.trial, decision.in_place
        if decision.trial is not None or known.is_default:
            notes.note(context, known)
        if decision.trial is not None:
            event("plan", "remembered", schedule=known.choice.text)

    def _find(self, context: TuningContext, known: Plan | None) -> Steps:
        # The first problem of a process also loads the modules of the space.
        make = partial(spaces.entrants, context.problem, context.supports)
        yield from self._load(make)
        if not spaces.is_made(context.problem):
            yield context.stats.work("space", make, in_advance=True)
        start = known.schedule if known else None
        self.search = search = search_for(context, effort=self.effort, live=True, start=start, unfinished=known)
        self._begin_with_served(context, search)
        loop = StepLoop(search.steps())
        loop.answer(None)
        memory.SCRATCH.hold()
        try:
            while (step := loop.pending) is not None:
                self._follow(context, search)
                memory.SCRATCH.trim(MAX_PAIR_BYTES)
                self.next_price_s = step.price_s if isinstance(step, (Work, Sample)) else 0.0
                loop.answer((yield step))
        except GeneratorExit:
            self.keep_unfinished()
            raise
        finally:
            loop.steps.close()
            memory.SCRATCH.release()
            context.problem.pattern.forget()
            self._follow(context, search)
        yield context.stats.work("save", self._save)
        yield from rates_step(context)

    def _begin_with_served(self, context: TuningContext, search: Search) -> None:
        """Let the search begin with the kernel that serves, on the same packed copy: candidates must be faster than it.

        That kernel won an early race, or is the plan of an unfinished search.
        """
        race, recalled, known = self.early, self.recalled, self._known
        if race is not None and race.is_won:
            default_s, measured_s = race.default_s, race.default_s / race.ratio
        elif recalled is not None and known is not None and known.choice == recalled.choice:
            default_s, measured_s = known.default_s or 0.0, known.measured_s or 0.0
        else:
            return
        if recalled is None or not 0.0 < measured_s < default_s:
            return
        trial = context(recalled.choice)
        trial.build()
        trial.pack()
        if trial.ready:
            search.begin_with(trial, default_s=default_s, measured_s=measured_s)

    def _follow(self, context: TuningContext, search: Search) -> None:
        """Set the session's incumbent to the search's, so that it serves products, and update the expected gain."""
        self.gain = _gain_after_ranking(context, search)
        self.incumbent = served_of(search.incumbent)

    def _save(self) -> None:
        assert self.context is not None
        assert self.search is not None
        self.search.in_place = fastest_in_place(self.search)
        if (in_place := served_of(self.search.in_place)) is not None and not in_place.ready:
            in_place.pack()
        self.in_place = in_place if in_place is not None and in_place.ready else None
        self.plan, self.is_finished = plan_of(self.search, tune_s=self.tuning_s), True
        remember(self.context, self.plan)
        notes.note(self.context, self.plan)

    def keep_unfinished(self) -> None:
        """Store the measurements of a search that will not finish, because the process or the matrix ends."""
        context, search = self.context, self.search
        if context is None or search is None or self.is_finished or sys.is_finalizing():
            return
        found = remember_measured(context, search, self._known, tune_s=self.tuning_s)
        if found is not None and not found.is_default:
            notes.note(context, found)
        notes.note_next_step(context, self.next_price_s)

    def _watch(self) -> Steps:
        """Yield steps that compare the incumbent with the default kernel from time to time; drop it when it loses."""
        context, incumbent = self.context, self.incumbent
        if context is None or incumbent is None:
            return
        excess_s = (self.plan.default_s or 0.0) - (self.plan.measured_s or 0.0)
        while (yield from watch(context, self._served, excess_s=excess_s)) is not incumbent:
            self.in_place = None
            self.plan = dataclasses.replace(self.plan, in_place=None, in_place_s=None)
        incumbent.drop()
        self.incumbent = self.in_place = None
        why = "the tuned kernel stopped being faster than the default one, or could not serve products any more"
        self.plan = dataclasses.replace(self.plan, choice=DEFAULT, why=why, measured_s=self.plan.default_s)
        remember(context, self.plan)

    def _served(self) -> ServedTrial | None:
        """Return the tuned kernel that serves now."""
        incumbent = self.incumbent
        choice = incumbent.service.choice if incumbent is not None and incumbent.service is not None else None
        is_packed = choice is None or (choice.serves_packed and not choice.is_tried)
        return incumbent if is_packed else self.in_place


GAIN_OF_KNOBS: Final = number("candidates", "gain of knobs")
"""Minimum fraction of the best known time that further candidates are expected to save, whatever the model predicts."""


def _gain_after_race(search: Search) -> float | None:
    """Return the fraction of the default time that further candidates are expected to save; None before a race.

    The predictions of candidates that were not raced are corrected by the least error of those that were.
    """
    if not search.default_s or not search.measured_s:
        return None
    raced = {choice.schedule: time_s / search.default_s for choice, time_s in search.measured_s.items()}
    predicted = search.queue.ratios
    errors = [ratio / predicted[one] for one, ratio in raced.items() if isinstance(one, Schedule) and one in predicted]
    best = min(1.0, raced.get(search.incumbent.choice.schedule, 1.0))
    others = min((ratio for one, ratio in predicted.items() if one not in raced), default=best)
    return max(GAIN_OF_KNOBS * best, best - min(errors, default=1.0) * others)


def _gain_after_ranking(context: TuningContext, search: Search) -> float:
    """Return the expected gain: the mean of past gains and the model's prediction for this pattern, if there is one.

    For operands larger than any cache it is the prediction alone: packing takes seconds, and past gains are of others.
    """
    if (left := _gain_after_race(search)) is not None:
        return left
    gain, ratio = expected_gain(context), min(search.queue.ratios.values(), default=None)
    if ratio is None:
        return gain
    predicted = max(0.0, 1.0 - ratio)
    return predicted if context.problem.pattern.nnz >= LARGE_ENTRIES else 0.5 * gain + 0.5 * predicted
