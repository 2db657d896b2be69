"""What is known about a problem from earlier: its plan, its name in histories, what tuning its kind has gained."""

from __future__ import annotations

import hashlib

from autosparse import cache, payoff
from autosparse.config import Effort
from autosparse.engine.bench import Bench
from autosparse.errors import RecordError
from autosparse.ops import OPS
from autosparse.plan import Plan
from autosparse.problem import Problem, columns_bucket
from autosparse.tuner.spaces import space_signature
from autosparse.unfolding import AnyOperand


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
    """The plan that an earlier call or process found for this problem on this machine, if any."""
    record = bench.store.load("plan", _key_of(bench))
    if record is None:
        return None
    try:
        return cache.plan_from_record(record)
    except RecordError:
        return None


def remember(bench: Bench, plan: Plan) -> None:
    """Keep `plan` for the next object, call or process; a plan found with more effort is not replaced."""
    old = recall(bench)
    if old is None or Effort(old.effort).rank <= Effort(plan.effort).rank:
        bench.store.save_later("plan", _key_of(bench), lambda: cache.plan_to_record(plan))


def _key_of(bench: Bench) -> str:
    """`plan_key` of its problem, made once."""
    bench.plan_key = bench.plan_key or plan_key(bench.problem)
    return bench.plan_key


def plan_key(problem: Problem) -> str:
    """Key of the plan of `problem` in the cache."""
    return cache.PlanKey.of(problem, space=space_signature(problem.operation, storage=problem.storage)).stable_hash()


def history_key(operand: AnyOperand, *, operation: str, transposed: bool, n_dense_cols: int, dtype: str) -> str:
    """Names a problem in histories, from samples of the structure: microseconds, where a hash takes a pass over it.

    Two patterns that share a key share a guess about how often they are used, nothing more.
    """
    digest = hashlib.blake2b(operand.structure_sample(), digest_size=12)
    return f"{digest.hexdigest()}|{operation}|{int(transposed)}|{columns_bucket(n_dense_cols)}|{dtype}"
