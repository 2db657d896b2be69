"""Select the kernel for a problem within a tuning budget.

`plan` looks in memory and on disk for a plan, checks whether tuning pays, and tunes or returns the default kernel.
`session.TuningSession` does the same in single steps, each of which products pay for.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Generator
from typing import Final

from autosparse.config import Effort
from autosparse.core.composite import Schedule
from autosparse.core.plan import EFFORT_IS_OFF, Plan
from autosparse.core.solver import DEFAULT, choice_of
from autosparse.core.values import dataclass
from autosparse.errors import TUNING_FAILURES
from autosparse.ops import OPS
from autosparse.targets.priors import number
from autosparse.tuner import Progress, Search
from autosparse.tuner.search.loop import perform
from autosparse.tuner.search.outcome import plan_of
from autosparse.tuner.search.race import timed_s
from autosparse.tuner.search.style import BLOCKING
from autosparse.tuner.search.trial import Step, Work
from autosparse.tuner.space import spaces
from autosparse.tuning import amortization
from autosparse.tuning.confirmation import FINAL_SHARE, confirm
from autosparse.tuning.learned import training_domain_of
from autosparse.tuning.memory.plan_lookup import (
    expected_gain,
    recall,
    remember,
    remember_measured,
    supported,
)
from autosparse.tuning.rates.steps import measure_within
from autosparse.tuning.solvers.candidates import search_for
from autosparse.tuning.trials.context import TuningContext
from autosparse.tuning.trials.kernel_trial import KernelTrial
from autosparse.tuning.trials.served import ServedTrial, served_of

FULL_LEAVES: Final = number("amortisation", "time left by a full search")
"""Expected time after a full search, as a fraction of the time after measuring the first candidates."""


@dataclass(frozen=True, slots=True)
class Decision:
    """Result of planning: a plan and the trial that runs it; the trial is None for the default kernel."""

    plan: Plan
    trial: ServedTrial | None = None
    in_place: ServedTrial | None = None  # ready too; serves where checks for writes cost more than `trial` saves


def default_plan(why: str, *, default_s: float | None = None, served_by: str | None = None) -> Plan:
    """Return a plan that uses the default kernel, or the library `served_by`, for the reason `why`."""
    return Plan(choice=DEFAULT, why=why, default_s=default_s, measured_s=default_s, served_by=served_by)


def plan(
    context: TuningContext,
    *,
    runs: int | None,
    effort: Effort,
    budget_s: float,
    may_lower: bool = False,
    progress: Progress | None = None,
    clock: Callable[[], float] = time.perf_counter,
) -> Decision:
    """Return the plan for this problem and its trials, ready to run: remembered, or searched in `budget_s` seconds.

    With `runs`, tuning starts only if that many products can pay for it; without, it always starts. With `may_lower`,
    `runs` may also select a less thorough tier than `effort`.
    """
    if effort is Effort.OFF:
        return Decision(default_plan(EFFORT_IS_OFF))
    if context.problem.deterministic:
        return Decision(default_plan("deterministic: one kernel, one summation order"))
    known = recall(context)
    if known is not None and (known := supported(context, known)) and known.satisfies(effort, budget_s):
        return adopt(context, known)
    if runs is not None:
        best, budget_s, refusal = _worthwhile(context, runs=runs, effort=effort, budget_s=budget_s, clock=clock)
        effort = best if may_lower else effort
        if refusal is not None:
            return Decision(refusal)
        if known is not None and known.satisfies(effort, budget_s):
            return adopt(context, known)
    if context.rates.is_wanted:
        measure_within(context, budget_s, clock=clock)
    spaces.entrants(context.problem, context.supports)  # first, so that the observed price of ranking excludes it
    search = search_for(context, effort=effort, start=known.schedule if known else None, live=False)
    found = _raced(context, search, known, budget_s=budget_s, clock=clock, progress=progress)
    remember(context, found)
    trial = served_of(search.incumbent)
    if trial is not None and not trial.ready:  # it was dropped to make room for another candidate when the budget ended
        trial.pack()
    return Decision(found, trial, served_of(search.in_place))


def adopt(context: TuningContext, known: Plan) -> Decision:
    """Make a remembered plan runnable; return the default kernel if that fails."""
    try:
        decision: Decision = perform(adoption(context, known), runner=context.runner)
    except TUNING_FAILURES as err:
        return Decision(_unusable(known, f"{type(err).__name__}: {err}"))
    return decision


def adoption(context: TuningContext, known: Plan) -> Generator[Step, float | None, Decision]:
    """Yield the steps that make a remembered plan runnable; return the default kernel if they fail."""
    if (trial := served_of(context(known.choice))) is None:
        return Decision(known)
    build_s, pack_s = trial.build_price_s(), trial.pack_price_s()
    is_built = not isinstance(trial, KernelTrial) or context.is_built(trial.schedule)
    yield Work(
        kind="build", price_s=build_s, path_price_s=build_s + pack_s, do=trial.build, in_advance=is_built, may_hang=True
    )
    if trial.failed is None:
        pack_s = trial.pack_price_s()
        yield Work(kind="pack", price_s=pack_s, path_price_s=pack_s, do=trial.pack, in_advance=True)
    if not trial.ready:
        no_room = "other packed copies of the matrix use up the memory limit (option extra_memory)"
        return Decision(_unusable(known, trial.failed or no_room))
    in_place = yield from _adopt_in_place(context, known)
    return Decision(dataclasses.replace(known, pack_s=trial.pack_s, packed_bytes=trial.packed_bytes), trial, in_place)


def _adopt_in_place(context: TuningContext, known: Plan) -> Generator[Step, float | None, ServedTrial | None]:
    """Yield the steps that make the plan's kernel on the user's arrays runnable, if it needs no compiler."""
    schedule = known.in_place
    if (
        not isinstance(schedule, Schedule)
        or context.supports(context.problem.operation, schedule) is not None
        or not context.is_built(schedule)
    ):
        return None
    trial = KernelTrial(choice_of(schedule), context)
    for kind, price_s, do in (("build", trial.build_price_s(), trial.build), ("pack", 0.0, trial.pack)):
        yield Work(kind=kind, price_s=price_s, path_price_s=price_s, do=do, in_advance=True)
    return trial if trial.ready else None


def _unusable(known: Plan, reason: str) -> Plan:
    return default_plan(f"the remembered plan cannot be used: {reason}", default_s=known.default_s)


def _worthwhile(
    context: TuningContext, *, runs: int, effort: Effort, budget_s: float, clock: Callable[[], float]
) -> tuple[Effort, float, Plan | None]:
    """Return (effort, seconds that tuning may take, plan with the default kernel if tuning does not pay, else None).

    The effort is the requested one, or the less thorough tier with the least expected total for `runs` products.
    """
    run = context.runner(context(DEFAULT))
    if run is None or budget_s <= 0:
        return effort, budget_s, None
    default_s = timed_s(run, clock=clock)
    offered = tiers(context, default_s=default_s, most=effort, budget_s=budget_s)
    best = amortization.pick(offered, n_runs=runs, default_s=default_s)
    if best is None:
        why = amortization.refusal(offered, n_runs=runs, default_s=default_s)
        return effort, 0.0, default_plan(f"tuning does not pay: {why}", default_s=default_s)
    # The run count is given by the user, so all of the expected saving may be spent.
    return Effort(best.name), min(budget_s, max(best.price_s, runs * best.gain * default_s)), None


def tiers(context: TuningContext, *, default_s: float, most: Effort, budget_s: float) -> list[amortization.Tier]:
    """Return the tuning tiers up to the effort `most`, with their expected price and gain on this machine."""
    cost_estimates, problem = context.stats.cost_estimates, context.problem
    prior = OPS[problem.operation].tuning.estimated_gain(problem.n_dense_cols)
    measured_gain = expected_gain(context)
    pack_s = context.packing_s() + context.compare_price_s()
    look_s = cost_estimates.price_s("rank") + pack_s + cost_estimates.price_s("load")
    n, rounds = BLOCKING.n_candidates, BLOCKING.rule.min_rounds
    each_s = cost_estimates.price_s("compile") + pack_s + 2 * rounds * default_s
    untrusted_reason = training_domain_of(context, is_learned=not problem.transposed).untrusted_reason(problem)
    found = {
        Effort.ESTIMATE: amortization.Tier(
            name="estimate", price_s=look_s, gain=0.0 if untrusted_reason else min(prior, measured_gain)
        ),
        Effort.MEASURE: amortization.Tier(name="measure", price_s=look_s + n * each_s, gain=measured_gain),
        Effort.FULL: amortization.Tier(
            name="full", price_s=max(budget_s, look_s + n * each_s), gain=1.0 - (1.0 - measured_gain) * FULL_LEAVES
        ),
    }
    return [tier for effort, tier in found.items() if effort.rank <= most.rank]


def _raced(
    context: TuningContext, search: Search, known: Plan | None, *, budget_s: float, clock: Callable[[], float],
    progress: Progress | None,
) -> Plan:  # fmt: skip
    """Return the plan of a race of the search's candidates and a final race; the default kernel is in both.

    An interrupt stores the measurements, releases the packed copies, and propagates.
    """
    from autosparse.tuning.memory.misses import why_not_remembered  # live tuning never needs it

    start_s, final_s = clock(), budget_s * FINAL_SHARE
    if known is None:
        not_remembered = why_not_remembered(context)
    else:
        found_with = f"found with effort {known.effort} in {known.tune_s:.3g} s"
        not_remembered = f"the remembered plan was {found_with}, less than requested"
    try:
        perform(
            search.steps(), runner=context.runner, budget_s=budget_s - final_s, clock=clock, progress=progress,
            observe=lambda work, seconds: context.stats.cost_estimates.observe(work.kind, seconds, work.units),
        )  # fmt: skip
        confirm(context, search, limit_s=final_s, clock=clock)
        if progress is not None:
            progress(1.0, "done")
        return dataclasses.replace(plan_of(search, tune_s=clock() - start_s), not_remembered=not_remembered)
    except BaseException as err:
        if isinstance(err, KeyboardInterrupt):
            remember_measured(context, search, known, tune_s=clock() - start_s)
        search.incumbent.drop()
        raise
    finally:
        context.release()
