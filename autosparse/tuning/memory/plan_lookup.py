"""Look up what is known about a problem: its plan, and the gains of similar problems."""

from __future__ import annotations

import dataclasses
from typing import Any, Final

from autosparse import cache
from autosparse._native.kernels import identity
from autosparse.config import Effort, Options
from autosparse.core.composite import Composite, Schedule
from autosparse.core.formats import STORED_VALUES
from autosparse.core.plan import Plan
from autosparse.core.problem import Problem
from autosparse.core.schedule import SuperSchedule
from autosparse.core.solver import Choice
from autosparse.errors import TUNING_FAILURES, RecordError
from autosparse.log import event
from autosparse.ops import OPS
from autosparse.tuner import Search
from autosparse.tuner.search.earlier import MAX_EARLIER
from autosparse.tuner.search.outcome import plan_of
from autosparse.tuner.space.families import TILES
from autosparse.tuner.space.spaces import space_signature
from autosparse.tuning import amortization
from autosparse.tuning.solvers.offered import reason_against, solver_named, solvers_of
from autosparse.tuning.trials.context import TuningContext

MAX_TILE: Final = max(TILES)
"""Maximum width in columns of a generated kernel's tile; wider ones would take minutes to compile."""


HYBRIDS: Final = {None: "", True: ", parts", False: ", one format"}
"""Suffix of a plan's search space in its key by the option `hybrid`, which separates the plans."""


def expected_gain(context: TuningContext) -> float:
    """Return the expected fraction of the default time saved: the operation's prior, corrected by past gains."""
    problem = context.problem
    prior = OPS[problem.operation].tuning.measured_gain(problem.n_dense_cols)
    seen = context.stats.cost_estimates.gains.get(problem.group)
    return amortization.shrunk_gain(prior, n_seen=seen.n_seen, mean_seen=seen.value) if seen else prior


def recall(context: TuningContext, *, fresh: bool = False) -> Plan | None:
    """Return the plan that an earlier call or process found for this problem on this machine; None if none is valid.

    `fresh`: see `Store.load`.
    """
    record = context.store.load("plan", key_of(context).stable_hash(), fresh=fresh)
    if record is None:
        return None
    try:
        found = cache.plan_from_record(record)
    except RecordError as err:
        reason: str | None = str(err)
    else:
        reason = reason_foreign(context.problem, found.schedule)
        if reason is None:
            is_foreign = reason_foreign(context.problem, found.in_place) is not None
            return dataclasses.replace(found, in_place=None, in_place_s=None) if is_foreign else found
    event("fallback", f"a remembered plan is not used: {reason}")
    forget(context)
    return None


def reason_foreign(problem: Problem, schedule: Schedule | None) -> str | None:
    """Return why a remembered `schedule` cannot serve `problem`, whatever the key of its record says; None if it can.

    This check needs no backend.
    """
    if not isinstance(schedule, Schedule):
        return None  # solvers without schedules are part of the key
    if schedule.operation != problem.operation:
        return f"it computes {schedule.operation}, not {problem.operation}"
    if schedule.format.values not in ("", problem.storage):
        return f"it stores values as {schedule.format.values}, but the option storage is {problem.storage or None}"
    tile = schedule.dense_split("j")
    if isinstance(schedule, Composite):
        reasons = (_foreign_columns(problem, part, part.dense_split("j")) for part in schedule.schedules)
        return next((reason for reason in reasons if reason is not None), None)
    return _foreign_columns(problem, schedule, tile)


def is_allowed(choice: Choice, options: Options, *, found_under: Options) -> bool:
    """Return whether a plan found under other options may serve under `options`.

    Another number of threads or instruction set means another default kernel, which the plan was not compared with.
    """
    if options.effort is Effort.OFF or options.deterministic:
        return False
    if (options.threads, options.isa) != (found_under.threads, found_under.isa):
        return False
    schedule = choice.schedule
    if not isinstance(schedule, Schedule):
        return choice.is_default or options.vendor or not found_under.vendor
    parts = schedule.schedules if isinstance(schedule, Composite) else (schedule,)
    if options.hybrid is False and isinstance(schedule, Composite):
        return False
    if any(one.format.values in STORED_VALUES and one.format.values != options.storage for one in parts):
        return False
    return options.compiler == found_under.compiler or all(one.is_precompiled for one in parts)


def _foreign_columns(problem: Problem, schedule: SuperSchedule, tile: int) -> str | None:
    if problem.n_dense_cols > 1 and not tile and not schedule.is_precompiled:
        return "it computes one column"
    return f"its tiles have {tile} columns" if tile > MAX_TILE else None


def supported(context: TuningContext, known: Plan) -> Plan | None:
    """Return the remembered plan `known` if its kernel exists here, else remove it from the store and return None.

    This check needs the backend.
    """
    if known.is_default:
        return known
    try:
        reason = _reason_unavailable(context, known.choice)
    except TUNING_FAILURES as err:
        reason = f"{type(err).__name__}: {err}"
    if reason is None:
        return known
    event("fallback", f"a remembered plan is not used: {reason}")
    forget(context)
    return None


def _reason_unavailable(context: TuningContext, choice: Choice) -> str | None:
    """Return why this process has no kernel or solver for `choice`, or None."""
    schedule = choice.schedule
    if not isinstance(schedule, Schedule):
        solver = solver_named(choice.solver, context.options, context.problem.operation)
        return f"no solver {choice.solver} is registered" if solver is None else reason_against(solver, context.problem)
    reason = context.supports(context.problem.operation, schedule)
    if reason is None and schedule.is_precompiled and context.loaded(schedule) is None:
        return "the runtime has no kernel for this schedule"
    return reason


def forget(context: TuningContext) -> None:
    """Remove the plan of this problem from the store."""
    context.store.remove("plan", key_of(context).stable_hash())


def remember(context: TuningContext, plan: Plan) -> None:
    """Store `plan` for later objects, calls or processes, unless a plan found with more effort is stored.

    Another thread writes it soon. If candidates were measured, the fraction of time that the plan saves is recorded.
    """
    event("plan", plan.why, schedule=plan.choice.text, seconds=plan.tune_s)
    if plan.effort == Effort.OFF.value or context.is_stale:
        return  # the result is not representative, so no later search should rely on it
    old = recall(context, fresh=True)
    if old is None or Effort(old.effort).rank <= Effort(plan.effort).rank:
        key = key_of(context)
        context.store.save_later("plan", key.stable_hash(), lambda: cache.plan_to_record(plan, key))
    if Effort(plan.effort).rank >= Effort.MEASURE.rank:
        saved = 1.0 - plan.measured_s / plan.default_s if plan.measured_s and plan.default_s else 0.0
        context.stats.cost_estimates.observe_gain(context.problem.group, saved)


def remember_measured(context: TuningContext, search: Search, known: Plan | None, *, tune_s: float) -> Plan | None:
    """Store the measurements of an interrupted search; return the stored plan, None if nothing is worth storing.

    Its effort is that of `known`, so that the next search continues it.
    """
    raced = list(search.measured_s)
    has_met_known = known is None or known.is_default or known.choice in raced
    if raced and has_met_known and not context.is_stale:
        effort = known.effort if known is not None else Effort.ESTIMATE.value
        found = dataclasses.replace(plan_of(search, tune_s=tune_s), effort=effort)
        return _kept(context, found)
    return None


def _kept(context: TuningContext, found: Plan) -> Plan | None:
    """Store the plan of an unfinished search, merged with other processes' measurements; None if a better plan exists.

    The record is locked, so that two processes that end at once do not lose measurements.
    """
    key, kept = key_of(context), list[Plan]()

    def change(record: dict[str, Any] | None) -> dict[str, Any]:
        old = _plan_from(record)
        if record is not None and old is not None and Effort(old.effort).rank > Effort(found.effort).rank:
            return record
        kept.append(with_candidates_of(old, found))
        return cache.plan_to_record(kept[0], key)

    context.store.update("plan", key.stable_hash(), change)
    return kept[0] if kept else None


def _plan_from(record: dict[str, Any] | None) -> Plan | None:
    try:
        return None if record is None else cache.plan_from_record(record)
    except RecordError:
        return None


def with_candidates_of(old: Plan | None, found: Plan) -> Plan:
    """Return `found` with the candidates that only `old` measured, scaled by the ratio of the default times."""
    if old is None or not old.default_s or not found.default_s:
        return found
    measured = {one.choice for one in found.candidates if one.measured_s}
    ratio = found.default_s / old.default_s
    more = [
        dataclasses.replace(one, measured_s=one.measured_s * ratio)
        for one in old.candidates
        if one.measured_s and one.n_samples and one.choice not in measured
    ][:MAX_EARLIER]
    named = {one.choice for one in more}
    rest = [one for one in found.candidates if one.choice not in named]
    return dataclasses.replace(found, candidates=(*rest, *more))


def key_of(context: TuningContext) -> cache.PlanKey:
    """Return the key of the problem's plan in the cache, computed once."""
    if context.plan_key is None:
        problem = context.problem
        space = space_signature(problem.operation, storage=problem.storage)
        space += HYBRIDS[context.options.hybrid]
        toolchain = identity.toolchain_of(context.options.compiler)
        solvers = solvers_of(context.options, problem.operation)
        context.plan_key = cache.PlanKey.of(problem, space=space, toolchain=toolchain, solvers=solvers)
    return context.plan_key
