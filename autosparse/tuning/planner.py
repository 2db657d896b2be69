"""Select the kernel for a problem within a tuning budget.

`plan` looks in memory and on disk for a plan, checks whether tuning pays, and tunes or returns the default kernel.
`session.TuningSession` does the same in single steps, each of which products pay for.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Generator, Hashable
from functools import partial
from typing import Any, Final

from autosparse._native.kernels.shipped import HIGH_SLICES
from autosparse.config import Effort
from autosparse.core.formats import DICTIONARY
from autosparse.core.plan import EFFORT_IS_OFF, Plan, named
from autosparse.core.problem import Problem
from autosparse.core.schedule import SuperSchedule
from autosparse.core.solver import DEFAULT, choice_of
from autosparse.core.values import dataclass
from autosparse.errors import TUNING_FAILURES
from autosparse.log import event
from autosparse.operands.holding import expected_look_s
from autosparse.ops import OPS
from autosparse.tuner import Progress, Search, tune
from autosparse.tuner.analytic.models import statistics_model
from autosparse.tuner.search.earlier import Earlier
from autosparse.tuner.search.loop import StepLoop, WithinBudget
from autosparse.tuner.search.race import timed_s
from autosparse.tuner.search.style import BLOCKING, live_style
from autosparse.tuner.search.trial import Divider, Step, Work
from autosparse.tuner.space import families, spaces
from autosparse.tuning import amortization
from autosparse.tuning.confirmation import FINAL_SHARE, confirmed
from autosparse.tuning.learned import proposer_of, training_domain_of
from autosparse.tuning.memory.history import packing_s
from autosparse.tuning.memory.misses import why_searched
from autosparse.tuning.memory.plan_lookup import (
    expected_gain,
    gain_kind,
    recall,
    remember,
    remember_measured,
    supported,
)
from autosparse.tuning.solvers.offered import offer_of
from autosparse.tuning.trials.context import TuningContext
from autosparse.tuning.trials.kernel_trial import KernelTrial
from autosparse.tuning.trials.served import ServedTrial, served_of

MIN_ORDERED: Final = 10_000
"""Minimum number of stored entries for which schedules with permuted rows race; smaller operands stay in cache."""
MAX_IN_PLACE: Final = 2
"""Maximum number of schedules on the user's own arrays that race whatever the models predict.

Each of them may take one compilation.
"""
FULL_LEAVES: Final = 0.97
"""Expected time after a full search, as a fraction of the time after measuring the first candidates.

Source: the loss of the best of a model's ten first candidates against the best schedule that was measured.
"""


@dataclass(frozen=True, slots=True)
class Decision:
    """Result of planning: a plan and the trial that runs it; the trial is None for the default kernel."""

    plan: Plan
    trial: ServedTrial | None = None
    in_place: ServedTrial | None = None  # ready too; serves where checks for writes cost more than `trial` saves


def default_plan(why: str, *, default_s: float | None = None, served_by: str | None = None) -> Plan:
    """Return a plan that uses the default kernel, or the library `served_by`, for the reason `why`."""
    return Plan(**named(DEFAULT), why=why, default_s=default_s, measured_s=default_s, served_by=served_by)


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
    if effort is Effort.OFF or context.problem.deterministic:
        why = EFFORT_IS_OFF if effort is Effort.OFF else "deterministic: one kernel, one summation order"
        return Decision(default_plan(why))
    known = supported(context, recall(context))
    if known is not None and satisfies(known, effort, budget_s):
        return adopt(context, known)
    best, budget_s, refusal = _worth(context, runs=runs, effort=effort, budget_s=budget_s, clock=clock)
    effort = best if may_lower else effort
    if refusal is not None:
        return Decision(refusal)
    if known is not None and satisfies(known, effort, budget_s):
        return adopt(context, known)
    make_space(context)  # first, so that the observed price of ranking excludes it
    search = search_for(context, effort=effort, start=known.schedule if known else None, live=False)
    start_s, not_remembered, search_s = clock(), why_searched(context, known), budget_s * (1.0 - FINAL_SHARE)
    search.divide = _divider_of(context, effort=effort, budget_s=search_s, known=known, clock=clock)
    try:
        learn = partial(observe, context)
        found = tune(search, runner=context.runner, budget_s=search_s, clock=clock, progress=progress, observe=learn)
        found = confirmed(context, search, found, limit_s=budget_s * FINAL_SHARE, clock=clock)
        found = dataclasses.replace(found, not_remembered=not_remembered)
    except BaseException as err:  # Ctrl-C as well: release the packed copies, then re-raise
        if isinstance(err, KeyboardInterrupt):
            remember_measured(context, search, known, tune_s=clock() - start_s)
        search.incumbent.drop()
        raise
    finally:
        context.release()
    conclude(context, found)
    return _decision(found, search)


def _divider_of(context: TuningContext, **terms: Any) -> Divider | None:
    """Return the composite source of `hybrid.divider_of`; imported here because live tuning never needs it."""
    from autosparse.tuning.hybrid import divider_of

    return divider_of(context, **terms)


def _decision(found: Plan, search: Search) -> Decision:
    """Return the plan `found` by `search` with the trials that run it, packed and ready."""
    if (incumbent := served_of(search.incumbent)) is None:
        return Decision(found)
    if not incumbent.ready:  # it was dropped to make room for another candidate when the budget ended
        incumbent.pack()
    return Decision(found, incumbent, in_place_of(search))


def in_place_of(search: Search) -> ServedTrial | None:
    """Return the search's fastest kernel on the user's arrays, ready to run.

    None if no such kernel won a race, or if the incumbent itself reads the user's arrays.
    """
    if (trial := served_of(search.in_place)) is None:
        return None
    if not trial.ready:
        trial.pack()
    return trial if trial.ready else None


def adopt(context: TuningContext, known: Plan) -> Decision:
    """Make a remembered plan runnable; return the default kernel if that fails."""
    try:
        loop = StepLoop(adoption(context, known))
        loop.run(WithinBudget(runner=context.runner))
    except TUNING_FAILURES as err:
        return Decision(_unusable(known, f"{type(err).__name__}: {err}"))
    decision: Decision = loop.result
    return decision


def adoption(context: TuningContext, known: Plan) -> Generator[Step, float | None, Decision]:
    """Yield the steps that make a remembered plan runnable; return the default kernel if they fail."""
    if (trial := served_of(context(known.choice))) is None:
        return Decision(known)
    build_s, pack_s = trial.build_price_s(), trial.pack_price_s()
    is_built = known.schedule is None or context.is_built(known.schedule)
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
        schedule is None
        or context.supports(context.problem.operation, schedule) is not None
        or not context.is_built(schedule)
    ):
        return None
    trial = KernelTrial(choice_of(schedule), context)
    for kind, price_s, do in (("build", trial.build_price_s(), trial.build), ("pack", 0.0, trial.pack)):
        yield Work(kind=kind, price_s=price_s, path_price_s=price_s, do=do, in_advance=True)
    return trial if trial.ready else None


def satisfies(known: Plan, effort: Effort, budget_s: float) -> bool:
    """Return whether a remembered plan was found with enough effort, and for a full search in enough time."""
    if effort is Effort.FULL and budget_s > 2.0 * known.tune_s:
        return False
    return Effort(known.effort).rank >= effort.rank


def _unusable(known: Plan, reason: str) -> Plan:
    return default_plan(f"the remembered plan cannot be used: {reason}", default_s=known.default_s)


def _worth(
    context: TuningContext, *, runs: int | None, effort: Effort, budget_s: float, clock: Callable[[], float]
) -> tuple[Effort, float, Plan | None]:
    """Return (effort, seconds that tuning may take, plan with the default kernel if tuning does not pay, else None).

    The effort is the requested one, or the less thorough tier with the least expected total for `runs` products.
    """
    if runs is None:
        return effort, budget_s, None
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
    prior = OPS[problem.operation].prior_estimate_gain(problem.n_dense_cols)
    measured_gain = expected_gain(context)
    pack_s = packing_s(cost_estimates, problem.pattern.nnz) + context.compare_price_s()
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


MAX_SPACES: Final = 1024
"""Maximum number of entries of `_spaces`; the set is cleared when it is full."""
_spaces: set[Hashable] = set()  # made by this process


def has_space(problem: Problem) -> bool:
    """Return whether this process has built the problem's schedule space, which takes 10 times as long as ranking."""
    return _space_of(problem) in _spaces


def make_space(context: TuningContext) -> None:
    """Build the schedule space of the context's problem and record that it exists."""
    spaces.entrants(context.problem, context.supports)
    if len(_spaces) >= MAX_SPACES:
        _spaces.clear()
    _spaces.add(_space_of(context.problem))


def _space_of(problem: Problem) -> Hashable:
    if not OPS[problem.operation].space:
        return problem.storage, problem.dtype, families.Outline.of(problem)
    pattern = problem.pattern
    return problem.operation, problem.mode, pattern.shape, pattern.index_dtype, problem.dtype, problem.n_dense_cols


def search_for(
    context: TuningContext, *, effort: Effort, live: bool, start: object = None, unfinished: Plan | None = None
) -> Search:
    """Return the search for this problem; `live` is true for tuning between products, and `start` is tried first.

    It continues the search that left the plan `unfinished`.
    """
    style, earlier = live_style(context.problem) if live else BLOCKING, Earlier.of(unfinished)
    best, offer = earlier.best(style.rule), offer_of(context.problem, context.options)
    start = best.schedule if best is not None else start
    return Search(
        problem=context.problem,
        effort=effort,
        make_trial=context,
        model=lambda: statistics_model(context.problem),
        supports=context.supports,
        cost_estimates=context.stats.cost_estimates,
        style=style,
        propose=proposer_of(context, live=live),
        is_built=context.is_built,
        untrusted_reason=lambda is_learned: training_domain_of(context, is_learned=is_learned).untrusted_reason(
            context.problem
        ),
        is_foreign=lambda: training_domain_of(context, is_learned=True).is_foreign(context.problem),
        first_price_s=packing_s(context.stats.cost_estimates, context.problem.pattern.nnz) + context.compare_price_s(),
        start=start if isinstance(start, SuperSchedule) else None,
        earlier=earlier,
        build_all=None if live else context.build,
        shipped=_shipped(context) if live else (),
        always=(*_in_place(context, live=live), *(() if live else _always(context))),
        others=offer.choices,
        refused=offer.refused,
    )


def _in_place(context: TuningContext, *, live: bool) -> list[SuperSchedule]:
    """Return schedules that read the user's own arrays, without checks for writes or repacking; they race first.

    Schedules that need a compiler are included only where others can write the arrays, because packed copies may not
    pay there. A live search excludes them, because its other candidates would wait for their compilation to be paid
    for.
    """
    problem = context.problem
    if problem.transposed or problem.storage or not is_read_in_place(context):
        return []
    found = [one for one in spaces.candidates(problem, context.supports) if one.format.is_csr]
    is_exposed = expected_look_s(context.operand()) > 0.0
    ready = [one for one in found if context.loaded(one) is not None] if is_exposed or not live else []
    others = [one for one in found if one not in ready] if is_exposed and not live else []
    return [*ready[:MAX_IN_PLACE], *others[: MAX_IN_PLACE - len(ready)]]


def _shipped(context: TuningContext) -> list[SuperSchedule]:
    """Return the schedules of shipped SpMV kernels for dictionary-encoded values, which no model ranks; at most one."""
    problem = context.problem
    if problem.operation != HIGH_SLICES.operation or problem.n_dense_cols > 1 or problem.storage != DICTIONARY:
        return []
    is_there = context.supports(problem.operation, HIGH_SLICES) is None and context.is_built(HIGH_SLICES)
    return [HIGH_SLICES] if is_there else []


def is_read_in_place(context: TuningContext) -> bool:
    """Return whether kernels of the operation can read the user's arrays and the matrix is large enough to profit."""
    return context.adapter.pack_live is not None and context.problem.pattern.nnz >= MIN_ORDERED


def _always(context: TuningContext) -> list[SuperSchedule]:
    """Return the schedules that race in every explicit search (sorted rows, row panels); none for small matrices."""
    from autosparse.tuning.hybrid import in_panels, ordered

    problem, operation = context.problem, context.problem.operation
    is_large = problem.pattern.nnz >= MIN_ORDERED and not problem.storage
    found = (*ordered(operation), *in_panels(context)) if is_large else ()
    return [one for one in found if context.supports(operation, one) is None and context.loaded(one) is not None]


PRICED: Final = frozenset({"recall", "import", "rank", "space", "save", "hash"})
"""Kinds of work whose price is updated after each run; trials update "build" and "pack" themselves."""


def observe(context: TuningContext, work: Work, seconds: float) -> None:
    """Update the price estimate of the kind of `work` by one run that took `seconds`; hashing is priced per byte."""
    if work.kind in PRICED:
        context.stats.observe(work.kind, seconds, context.problem.operand_bytes if work.kind == "hash" else 1.0)


def conclude(context: TuningContext, found: Plan) -> None:
    """Store the plan `found` of a finished search, and record the fraction of time it saves."""
    event("plan", found.why, schedule=found.text, seconds=found.tune_s)
    if found.effort == Effort.OFF.value or context.is_stale:
        return  # the result is not representative, so no later search should rely on it
    remember(context, found)
    if Effort(found.effort).rank >= Effort.MEASURE.rank:
        saved = 1.0 - found.measured_s / found.default_s if found.measured_s and found.default_s else 0.0
        context.stats.gained(gain_kind(context.problem), saved)
