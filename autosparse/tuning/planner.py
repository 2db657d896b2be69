"""Decide: what runs for a problem, and what may be spent on finding out. The only place that chooses.

Memory -> record on disk -> does it pay? -> tune, or the default kernel. `plan` does so at once (the user asked);
`TuningSession` does so in steps that are bought out of what products have cost so far (nobody asked).
"""

from __future__ import annotations

import dataclasses
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from autosparse import _native
from autosparse.config import Effort
from autosparse.core.plan import Plan
from autosparse.core.schedule import SuperSchedule
from autosparse.errors import TUNING_FAILURES
from autosparse.log import event
from autosparse.ops import OPS
from autosparse.tuner import Progress, Search, tune
from autosparse.tuner.search.race import timed_s
from autosparse.tuner.search.search import Steps
from autosparse.tuner.search.style import BLOCKING, live_style
from autosparse.tuner.search.trial import Trial, Work
from autosparse.tuning import amortization
from autosparse.tuning.confirmation import FINAL_SHARE, confirmed, given_up, watch
from autosparse.tuning.hybrid import divider_of
from autosparse.tuning.learned import proposer_of, seen_by
from autosparse.tuning.memory.misses import why_searched
from autosparse.tuning.memory.plan_lookup import (
    expected_gain,
    gain_kind,
    recall,
    remember,
    remember_measured,
    supported,
)
from autosparse.tuning.statistics import statistics_model
from autosparse.tuning.trials.kernel_trial import KernelTrial
from autosparse.tuning.trials.lab import KernelLab

FULL_LEAVES: Final = 0.97
"""Of the time that measuring the first candidates leaves, what a full search leaves: top-10 quality of the models."""


@dataclass(frozen=True, slots=True)
class Decision:
    """A plan, and its trial ready to run (None: the default kernel)."""

    plan: Plan
    trial: KernelTrial | None = None


def default_plan(why: str, *, default_s: float | None = None, served_by: str | None = None) -> Plan:
    """The default kernel, and why; or the library that computes instead of it."""
    return Plan(schedule=None, why=why, default_s=default_s, measured_s=default_s, served_by=served_by)


# -- asked for ----------------------------------------------------------------------------------------------------


def plan(
    lab: KernelLab,
    *,
    runs: int | None,
    effort: Effort,
    budget_s: float,
    may_lower: bool = False,
    progress: Progress | None = None,
    clock: Callable[[], float] = time.perf_counter,
) -> Decision:
    """What should run for this problem, found now within `budget_s` seconds.

    With `runs`, tuning is begun only when that many products can pay for it; without, the user asked, so it is. With
    `may_lower` they may also be found to pay best for a less thorough tier than `effort`.
    """
    if effort is Effort.OFF or lab.problem.deterministic:
        why = "effort is off" if effort is Effort.OFF else "deterministic: one kernel, one summation order"
        return Decision(default_plan(why))
    known = supported(lab, recall(lab))
    if known is not None and _satisfies(known, effort, budget_s):
        return adopt(lab, known)
    best, budget_s, refusal = _worth(lab, runs=runs, effort=effort, budget_s=budget_s, clock=clock)
    effort = best if may_lower else effort
    if refusal is not None:
        return Decision(refusal)
    if known is not None and _satisfies(known, effort, budget_s):
        return adopt(lab, known)
    search = _search(lab, effort=effort, start=known.schedule if known else None, live=False)
    start_s, not_remembered, search_s = clock(), why_searched(lab, known), budget_s * (1.0 - FINAL_SHARE)
    search.divide = divider_of(lab, effort=effort, budget_s=search_s, known=known, clock=clock)
    try:
        steps = {"runner": lab.runner, "clock": clock, "progress": progress, "observe": _observer(lab)}
        found = tune(search, budget_s=search_s, **steps)  # type: ignore[arg-type]
        found = confirmed(lab, search, found, limit_s=budget_s * FINAL_SHARE, clock=clock)
        found = dataclasses.replace(found, not_remembered=not_remembered)
    except BaseException as err:  # Ctrl-C as well: nothing may stay packed; the exception goes on
        if isinstance(err, KeyboardInterrupt):
            remember_measured(lab, search, known, tune_s=clock() - start_s)
        search.champion.drop()
        raise
    finally:
        lab.release()
    _conclude(lab, search, found)
    return _decision(found, search.champion)


def _decision(found: Plan, champion: Trial) -> Decision:
    """What was found, its champion ready to run."""
    if not isinstance(champion, KernelTrial) or champion.schedule is None:
        return Decision(found)
    if not champion.ready:  # it had made room for a challenger when the budget ended
        champion.pack()
    champion.gain_s = _gain_s(found)
    return Decision(found, champion)


def adopt(lab: KernelLab, known: Plan) -> Decision:
    """Make a remembered plan runnable; the default kernel where that fails."""
    if known.schedule is None:
        return Decision(known)
    trial = lab(known.schedule)
    try:
        trial.build()
        if trial.failed is None:
            trial.pack()
    except TUNING_FAILURES as err:
        trial.failed = f"{type(err).__name__}: {err}"
    if not trial.ready:
        return Decision(_unusable(known, trial))
    trial.gain_s = _gain_s(known)
    return Decision(dataclasses.replace(known, pack_s=trial.pack_s, packed_bytes=trial.packed_bytes), trial)


def _gain_s(found: Plan) -> float:
    """Seconds that a product by the plan's kernel saves; 0 while unknown."""
    return max(0.0, found.default_s - found.measured_s) if found.default_s and found.measured_s else 0.0


def _satisfies(known: Plan, effort: Effort, budget_s: float) -> bool:
    """Whether a remembered plan will do: found with no less effort, and for a full search with no less time."""
    if effort is Effort.FULL and budget_s > 2.0 * known.tune_s:
        return False
    return Effort(known.effort).rank >= effort.rank


def _unusable(known: Plan, trial: KernelTrial) -> Plan:
    reason = trial.failed or "other packed copies of the matrix leave it no room (option extra_memory)"
    return default_plan(f"the remembered plan cannot be used: {reason}", default_s=known.default_s)


def _worth(
    lab: KernelLab, *, runs: int | None, effort: Effort, budget_s: float, clock: Callable[[], float]
) -> tuple[Effort, float, Plan | None]:
    """(effort, seconds that tuning may take, the plan to use instead if it is not worth beginning).

    The effort is the one asked for, or the less thorough tier that so many products pay for best.
    """
    if runs is None:
        return effort, budget_s, None
    run = lab.runner(lab(None))
    if run is None or budget_s <= 0:
        return effort, budget_s, None
    default_s = timed_s(run, clock=clock)
    offered = tiers(lab, default_s=default_s, most=effort, budget_s=budget_s)
    best = amortization.pick(offered, n_runs=runs, default_s=default_s)
    if best is None:
        cheapest = min(offered, key=lambda tier: tier.price_s)
        saved_s = runs * cheapest.gain * default_s
        why = f"{runs:,} products would save {saved_s:.3g} s, tuning costs {cheapest.price_s:.3g} s"
        return effort, 0.0, default_plan(f"tuning does not pay: {why}", default_s=default_s)
    # Asked for and promised: all that is expected to be saved may be spent.
    return Effort(best.name), min(budget_s, max(best.price_s, runs * best.gain * default_s)), None


def tiers(lab: KernelLab, *, default_s: float, most: Effort, budget_s: float) -> list[amortization.Tier]:
    """What tuning of this problem takes on this machine and is expected to save, up to the effort `most`."""
    prices, problem = lab.experience.prices, lab.problem
    prior = OPS[problem.operation].prior_estimate_gain(problem.n_dense_cols)
    measured_gain = expected_gain(lab)
    pack_s = prices.price_s("pack", problem.pattern.nnz) + lab.compare_price_s()
    look_s = prices.price_s("rank") + pack_s + prices.price_s("load")
    n, rounds = BLOCKING.n_candidates, BLOCKING.rule.min_rounds
    each_s = prices.price_s("compile") + pack_s + 2 * rounds * default_s
    doubt = seen_by(lab, is_learned=not problem.transposed).doubt(problem)
    found = {
        Effort.ESTIMATE: amortization.Tier(
            name="estimate", price_s=look_s, gain=0.0 if doubt else min(prior, measured_gain)
        ),
        Effort.MEASURE: amortization.Tier(name="measure", price_s=look_s + n * each_s, gain=measured_gain),
        Effort.FULL: amortization.Tier(
            name="full", price_s=max(budget_s, look_s + n * each_s), gain=1.0 - (1.0 - measured_gain) * FULL_LEAVES
        ),
    }
    return [tier for effort, tier in found.items() if effort.rank <= most.rank]


def _search(lab: KernelLab, *, effort: Effort, live: bool, start: object = None) -> Search:
    return Search(
        problem=lab.problem,
        effort=effort,
        make_trial=lab,
        model=lambda: statistics_model(lab.problem),
        supports=lab.supports,
        prices=lab.experience.prices,
        style=live_style(lab.problem) if live else BLOCKING,
        propose=proposer_of(lab, live=live),
        is_built=lab.is_built,
        doubt=lambda is_learned: seen_by(lab, is_learned=is_learned).doubt(lab.problem),
        first_price_s=lab.experience.prices.price_s("pack", lab.problem.pattern.nnz) + lab.compare_price_s(),
        start=start if isinstance(start, SuperSchedule) else None,
        build_all=None if live else lab.build,
    )


def _observer(lab: KernelLab) -> Callable[[Work, float], None]:
    def observe(step: Work, seconds: float) -> None:
        units = UNITS.get(step.kind)
        if units is not None:
            lab.experience.observe(step.kind, seconds, units(lab))

    return observe


UNITS: Final[dict[str, Callable[[KernelLab], float]]] = {
    "recall": lambda lab: 1.0,
    "import": lambda lab: 1.0,
    "rank": lambda lab: 1.0,
    "save": lambda lab: 1.0,
    "hash": lambda lab: lab.problem.operand_bytes,
}
"""Kinds of work whose price is learnt from every one done, and what one unit is (trials observe "build" and "pack")."""


def _conclude(lab: KernelLab, search: Search, found: Plan) -> None:
    """Remember a finished search, and what it gained."""
    event("plan", found.why, schedule=found.schedule.to_json() if found.schedule else "default", seconds=found.tune_s)
    if found.effort == Effort.OFF.value or lab.is_stale:
        return  # nothing was learnt that the next search should rely on
    remember(lab, found)
    if Effort(found.effort).rank >= Effort.MEASURE.rank:
        saved = 1.0 - found.measured_s / found.default_s if found.measured_s and found.default_s else 0.0
        lab.experience.gained(gain_kind(lab.problem), saved)


def _gain_after_ranking(lab: KernelLab, search: Search) -> float:
    """Expected gain, halfway between experience and the model once the model was asked about this pattern."""
    gain, ratio = expected_gain(lab), search.best_predicted_ratio()
    return gain if ratio is None else 0.5 * gain + 0.5 * max(0.0, 1.0 - ratio)


# -- not asked for ------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class TuningSession:
    """Planning in steps, to be bought one at a time; `champion` may run at any moment.

    `steps` yields Work, Sample and Pause. `make_lab` hashes nothing yet builds the Problem, so it is a step itself.
    """

    make_lab: Callable[[], KernelLab]
    effort: Effort
    recall_price_s: float
    hash_price_s: float
    import_price_s: float
    runs_expected: Callable[[], float | None]  # looks into the history
    total_runs: float | None = None  # hint or history
    lab: KernelLab | None = None
    search: Search | None = None
    plan: Plan = field(default_factory=lambda: default_plan("not tuned: too little was run so far"))
    champion: KernelTrial | None = None  # None: the default kernel
    gain: float = 0.1
    tuning_s: float = 0.0  # spent so far; the live tuner keeps it up to date
    _known: Plan | None = None
    _is_settled: bool = False

    def settle(self, plan: Plan, champion: KernelTrial | None) -> None:
        """Take a plan that was found otherwise: only watching is left to do."""
        self.plan, self.champion, self._is_settled = plan, champion, True

    def current_plan(self) -> Plan:
        """What is known by now."""
        if self.search is not None and not self._is_settled:
            return self.search.plan(tune_s=self.tuning_s)
        return self.plan

    def steps(self) -> Steps:
        """Recall, then adopt or search, then watch."""
        if self._is_settled:
            yield from self._watch()
            return
        recall_s, hash_s = self.recall_price_s, self.hash_price_s
        yield Work(kind="recall", price_s=recall_s, path_price_s=recall_s, do=self._look_back, on_credit=True)
        yield Work(kind="hash", price_s=hash_s, path_price_s=hash_s + recall_s, do=self._identify, on_credit=True)
        assert self.lab is not None
        if self._known is not None and self._known.schedule is not None:
            self.plan = default_plan("a remembered plan waits until products have paid for using it")
            yield from self._load()
            self._known = supported(self.lab, self._known)
        known = self._known
        if known is not None and _satisfies(known, self.effort, 0.0):
            yield from self._adopt(self.lab, known)
        else:
            yield from self._find(self.lab, known)
        yield from self._watch()

    def _look_back(self) -> None:
        if self.total_runs is None:
            self.total_runs = self.runs_expected()

    def _identify(self) -> None:
        self.lab = self.make_lab()
        self.lab.patience_s = 0.0  # nobody asked: no compiler is waited for longer than its price explains
        self._known = recall(self.lab)
        self.gain = expected_gain(self.lab)
        if self._known is not None and self._known.measured_s and self._known.default_s:
            self.gain = max(0.0, 1.0 - self._known.measured_s / self._known.default_s)

    def _load(self) -> Steps:
        """What building kernels needs: imported once per process, and only when something is to be built."""
        if "autosparse._native.kernels.implementations" not in sys.modules:
            import_s = self.import_price_s
            yield Work(kind="import", price_s=import_s, path_price_s=import_s, do=partial(getattr, _native, "supports"))

    def _adopt(self, lab: KernelLab, known: Plan) -> Steps:
        self._is_settled = True
        if known.schedule is None:
            self.plan = known
            return
        trial = lab(known.schedule)
        path_s = trial.build_price_s() + trial.pack_price_s()
        is_built = lab.is_built(known.schedule)
        yield Work(
            kind="build", price_s=trial.build_price_s(), path_price_s=path_s, do=trial.build, on_credit=is_built,
            may_hang=True,
        )  # fmt: skip
        if trial.failed is None:
            pack_s = trial.pack_price_s()
            yield Work(kind="pack", price_s=pack_s, path_price_s=pack_s, do=trial.pack, on_credit=True)
        if not trial.ready:
            self.plan = _unusable(known, trial)
            return
        trial.gain_s = _gain_s(known)
        self.champion = trial
        self.plan = dataclasses.replace(known, pack_s=trial.pack_s, packed_bytes=trial.packed_bytes)
        event("plan", "remembered", schedule=known.schedule.to_json())

    def _find(self, lab: KernelLab, known: Plan | None) -> Steps:
        yield from self._load()
        self.search = search = _search(lab, effort=self.effort, live=True, start=known.schedule if known else None)
        steps = search.steps()
        answer: float | None = None
        try:
            while True:
                try:
                    step = steps.send(answer)
                except StopIteration:
                    break
                finally:
                    self._follow(search)
                self.gain = _gain_after_ranking(lab, search)
                answer = yield step
        finally:
            steps.close()
            self._follow(search)
        price_s = lab.experience.prices.price_s("save")
        yield Work(kind="save", price_s=price_s, path_price_s=0.0, do=self._save)

    def _follow(self, search: Search) -> None:
        """The search's champion serves products from the moment it is crowned."""
        champion = search.champion
        self.champion = champion if isinstance(champion, KernelTrial) and champion.schedule is not None else None
        if self.champion is not None and search.default_s:
            self.champion.gain_s = max(0.0, search.default_s - search.measured_s.get(id(champion), search.default_s))

    def _save(self) -> None:
        assert self.lab is not None
        assert self.search is not None
        self.plan, self._is_settled = self.search.plan(tune_s=self.tuning_s), True
        _conclude(self.lab, self.search, self.plan)

    def _watch(self) -> Steps:
        """Compare the champion with the default kernel now and then, and give it up when it is no faster."""
        lab, champion = self.lab, self.champion
        if lab is None or champion is None:
            return
        yield from watch(lab, champion, excess_s=(self.plan.default_s or 0.0) - (self.plan.measured_s or 0.0))
        champion.drop()
        self.champion = None
        self.plan = given_up(lab, self.plan)
        event("plan", self.plan.why)
