"""What is known about a problem from earlier: its plan, its name in histories, what tuning its kind has gained."""

from __future__ import annotations

import dataclasses
import hashlib
from typing import Final

from autosparse import cache, payoff
from autosparse._native.kernels import identity
from autosparse.config import Effort
from autosparse.engine.bench import Bench
from autosparse.errors import TUNING_FAILURES, RecordError
from autosparse.log import event
from autosparse.ops import OPS
from autosparse.plan import Plan
from autosparse.problem import Problem, columns_bucket
from autosparse.tuner import Search
from autosparse.tuner.space.families import TILES
from autosparse.tuner.space.spaces import space_signature
from autosparse.unfolding import AnyOperand

MAX_TILE: Final = max(TILES)
"""Columns of the widest tile that code is generated for: more would take minutes to compile."""


def gain_kind(problem: Problem) -> str:
    """Name under which the gains of tuning such problems are remembered."""
    return f"{problem.operation}|{columns_bucket(problem.n_dense_cols)}"


def expected_gain(bench: Bench) -> float:
    """Share of the default time that tuning is expected to save: prior of the operation, corrected by experience."""
    problem = bench.problem
    prior = OPS[problem.operation].prior_gain(problem.n_dense_cols)
    seen = bench.experience.prices.gains.get(gain_kind(problem))
    return payoff.shrunk_gain(prior, n_seen=seen.n_seen, mean_seen=seen.value) if seen else prior


def recall(bench: Bench) -> Plan | None:
    """The plan that an earlier call or process found for this problem on this machine, if any that can be believed."""
    record = bench.store.load("plan", key_of(bench).stable_hash())
    if record is None:
        return None
    try:
        found = cache.plan_from_record(record)
    except RecordError as err:
        reason: str | None = str(err)
    else:
        reason = reason_foreign(bench.problem, found)
        if reason is None:
            return found
    event("fallback", f"a remembered plan is not used: {reason}")
    forget(bench)
    return None


def reason_foreign(problem: Problem, plan: Plan) -> str | None:
    """Why `plan` is none for `problem`, whatever its record's key says; None when it is. What needs no backend."""
    schedule = plan.schedule
    if schedule is None:
        return None
    if schedule.operation != problem.operation:
        return f"it computes {schedule.operation}, not {problem.operation}"
    if schedule.format.values not in ("", problem.storage):
        return f"it rounds values to {schedule.format.values}, which nobody asked for"
    tile = schedule.dense_split("j")
    if problem.n_dense_cols > 1 and not tile and not schedule.is_precompiled:
        return "it computes one column"
    return f"its tiles have {tile} columns" if tile > MAX_TILE else None


def supported(bench: Bench, known: Plan | None) -> Plan | None:
    """A remembered plan, unless there can be no kernel of it: then it is forgotten. Needs the backend."""
    if known is None or known.schedule is None:
        return known
    try:
        reason = bench.supports(bench.problem.operation, known.schedule)
        if reason is None and known.schedule.is_precompiled and bench.loaded(known.schedule) is None:
            reason = "the runtime has no such loops"
    except TUNING_FAILURES as err:
        reason = f"{type(err).__name__}: {err}"
    if reason is None:
        return known
    event("fallback", f"a remembered plan is not used: {reason}")
    forget(bench)
    return None


def forget(bench: Bench) -> None:
    """Let the plan of this problem go: the next search remembers its own."""
    bench.store.remove("plan", key_of(bench).stable_hash())


def remember(bench: Bench, plan: Plan) -> None:
    """Keep `plan` for the next object, call or process; a plan found with more effort is not replaced."""
    old = recall(bench)
    if old is None or Effort(old.effort).rank <= Effort(plan.effort).rank:
        key = key_of(bench)
        bench.store.save_later("plan", key.stable_hash(), lambda: cache.plan_to_record(plan, key))


def remember_measured(bench: Bench, search: Search, known: Plan | None, *, tune_s: float) -> None:
    """Keep what an interrupted search has measured; worth no more than `known`, so that the next search goes on."""
    raced = [trial.schedule for trial in search.trials if id(trial) in search.measured_s]
    has_met_known = known is None or known.schedule is None or known.schedule in raced
    if raced and has_met_known and not bench.is_stale:
        effort = known.effort if known is not None else Effort.ESTIMATE.value
        remember(bench, dataclasses.replace(search.plan(tune_s=tune_s), effort=effort))


def key_of(bench: Bench) -> cache.PlanKey:
    """Key of the plan of its problem in the cache, made once."""
    if bench.plan_key is None:
        problem = bench.problem
        space = space_signature(problem.operation, storage=problem.storage)
        maker = identity.maker_of(bench.options.compiler)
        bench.plan_key = cache.PlanKey.of(problem, space=space, maker=maker)
    return bench.plan_key


def history_key(operand: AnyOperand, *, operation: str, transposed: bool, n_dense_cols: int, dtype: str) -> str:
    """Names a problem in histories, from samples of the structure: microseconds, where a hash takes a pass over it.

    Two patterns that share a key share a guess about how often they are used, nothing more.
    """
    digest = hashlib.blake2b(operand.structure_sample(), digest_size=12)
    return f"{digest.hexdigest()}|{operation}|{int(transposed)}|{columns_bucket(n_dense_cols)}|{dtype}"
