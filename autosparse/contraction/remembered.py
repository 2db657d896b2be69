"""Remember chosen programs by subscripts and sparsity patterns, in this process and in the cache on disk."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from autosparse import config
from autosparse._native import runtime_api
from autosparse._native.c.build import compiler_id
from autosparse.cache.keys import PlanKey
from autosparse.cache.records import plan_to_record
from autosparse.cache.stores import open_store, stored_plan
from autosparse.config import Effort
from autosparse.contraction.candidates import listed, name_of
from autosparse.contraction.choice import choose, plan_of
from autosparse.contraction.kinds import AnyArray
from autosparse.contraction.lower import numba_kernel
from autosparse.contraction.lower.bound import BoundContraction, bound, is_kept, is_plain
from autosparse.contraction.lower.kernel import CompiledProgram, compiled, execute
from autosparse.contraction.lower.plan import EinsumPlan
from autosparse.contraction.operands import Operand, Sparse
from autosparse.contraction.race import PROGRAM, plan_by_model, race, tasks_of
from autosparse.contraction.routes import joins
from autosparse.contraction.routes.patterns import key_of
from autosparse.contraction.subscripts import Subscripts
from autosparse.core.calls import Recent, ServedCalls
from autosparse.core.plan import Plan
from autosparse.core.target import Target
from autosparse.ops import EINSUM
from autosparse.targets.priors import number

MAX_CHOICES: Final = 256
"""Maximum number of choices kept in a process."""
MAX_BOUND: Final = 32
"""Maximum number of choices for which reordered copies of patterns are kept as well."""
CALLS_BEFORE_TIMING: Final = 8
"""Number of calls with one pattern, made or announced by the option `runs`, after which programs may be timed."""
RACE_S: Final = number("programs", "race s")
"""Approximate duration of the timing, mostly compilation, in seconds. Calls must take as long before it starts."""
NUMBA_S: Final = number("programs", "numba s")
"""Approximate time that numba takes to compile a kernel, in seconds."""


@dataclass(eq=False)
class Joined(ServedCalls):
    """Calls of one expression that were computed by joins; `plan` is that of the numba kernel which replaces them."""

    plan: EinsumPlan | None = None


@dataclass(eq=False)
class RememberedProgram(ServedCalls):
    """Compiled program that was chosen for operands of one pattern, and the calls that it served."""

    program: CompiledProgram = field(kw_only=True)
    plan: Plan = field(kw_only=True)  # with the programs that were timed


_choices: Final[Recent[str, RememberedProgram]] = Recent(MAX_CHOICES)
_bound: Final[Recent[str, BoundContraction]] = Recent(MAX_BOUND)
_without_compiler: Final[Recent[str, Joined]] = Recent(MAX_CHOICES)


def contract(operands: Sequence[Operand], subscripts: Subscripts, *, is_dense_output: bool) -> Sparse | AnyArray:
    """Contract `operands` by the remembered program, or by one chosen and compiled now; raise BuildError on failure."""
    named = {name_of(n): operand for n, operand in enumerate(operands)}
    key, found = ready(operands, subscripts, is_dense_output=is_dense_output)
    options = config.get_options()
    may_time = options.effort.rank >= Effort.MEASURE.rank and not options.deterministic
    if may_time and not found.plan.satisfies(options.effort) and found.pays(RACE_S, least_calls=CALLS_BEFORE_TIMING):
        found.plan = replace(found.plan, effort=options.effort.value)
        ranked = choose(operands, subscripts, is_dense_output=is_dense_output, are_copies_kept=is_kept(named))
        raced = race(ranked, named, subscripts.extents, options.effort)
        found.program, found.plan = raced.program, raced.plan
        _save(key, found.plan)
    start = time.perf_counter()
    result = _served(key, found, named, subscripts.extents)
    found.count(time.perf_counter() - start)
    return result


def ready(
    operands: Sequence[Operand], subscripts: Subscripts, *, is_dense_output: bool
) -> tuple[str, RememberedProgram]:
    """Return the cache key of these patterns and the program for them, chosen and compiled if necessary."""
    named = {name_of(n): operand for n, operand in enumerate(operands)}
    key = key_of(operands, subscripts, is_dense_output=is_dense_output)
    found = _choices.get(key)
    if found is None:
        loaded = _load(key, operands, subscripts, is_dense_output=is_dense_output)
        if loaded is None:
            tasks, program, _ = choose(operands, subscripts, is_dense_output=is_dense_output).plans[0]
            plan = plan_by_model(program, tasks)
        else:
            plan, program = loaded
        found = RememberedProgram(program=compiled(program, named, subscripts.extents), plan=plan)
        if loaded is None:
            _save(key, plan)
        found = _choices.keep(key, found)
    return key, found


def _served(
    key: str, found: RememberedProgram, named: dict[str, Operand], extents: dict[str, int]
) -> Sparse | AnyArray:  # fmt: skip
    """Return the result of the program `found`; from its second call on, keep its binding to the patterns."""
    kept = _bound.get(key)
    if kept is None or kept.program is not found.program or not is_plain(named, kept.program):
        is_wanted = found.n_calls > 0 and runtime_api.available
        kept = bound(found.program, named, extents, tasks_of(found.plan)) if is_wanted else None
        if kept is None:
            return execute(found.program, named, extents, tasks=tasks_of(found.plan))
        _bound.pop(key, None)  # of another program
        _bound.keep(key, kept)
    return kept.run(named)


def contract_without_compiler(
    operands: Sequence[Operand], subscripts: Subscripts, *, is_dense_output: bool
) -> Sparse | AnyArray:
    """Contract by joins; switch to a numba kernel once joins of these patterns have taken as long as its compilation.

    Calls announced by the option `runs` count as well. At least eight calls are needed.
    """
    if not numba_kernel.is_there():
        return joins.contract(operands, subscripts)
    key = key_of(operands, subscripts, is_dense_output=is_dense_output)
    found = _without_compiler.keep(key, Joined())
    if found.plan is None and found.pays(NUMBA_S, least_calls=CALLS_BEFORE_TIMING):
        found.plan = choose(operands, subscripts, is_dense_output=is_dense_output).plan
    if found.plan is not None:
        named = {name_of(n): operand for n, operand in enumerate(operands)}
        return numba_kernel.run(found.plan, named, subscripts.extents, is_compiled=True)
    start = time.perf_counter()
    result = joins.contract(operands, subscripts)
    found.count(time.perf_counter() - start)
    return result


def peek(
    operands: Sequence[Operand], subscripts: Subscripts, *, is_dense_output: bool
) -> RememberedProgram | tuple[Plan, EinsumPlan] | None:
    """Return the program of this process, or the plan on disk with its program, else None; compile nothing."""
    key = key_of(operands, subscripts, is_dense_output=is_dense_output)
    return _choices.get(key) or _load(key, operands, subscripts, is_dense_output=is_dense_output)


def _save(key: str, plan: Plan) -> None:
    plan_key = _plan_key(key)
    open_store().save("plan", plan_key.stable_hash(), plan_to_record(plan, plan_key))


def _plan_key(key: str) -> PlanKey:
    """Return the cache key of a plan; `key` digests the patterns, the subscripts and the version of the programs."""
    options = config.get_options()
    target = Target.host().held_to(options.isa)
    return PlanKey(
        pattern=key, operation=EINSUM.name, transposed=False, columns_bucket=1, dtype="", index_dtype="",
        threads=options.threads or runtime_api.max_threads(), deterministic=options.deterministic, target=target.key(),
        space="frontier programs", implementation="c", compiler=compiler_id(options.compiler), emitter="", runtime="",
    )  # fmt: skip


def _load(
    key: str, operands: Sequence[Operand], subscripts: Subscripts, *, is_dense_output: bool
) -> tuple[Plan, EinsumPlan] | None:
    """Load the plan and its program from disk; None if absent or not an enumerated program."""
    plan = stored_plan(open_store(), _plan_key(key))
    if plan is None or plan.solver != PROGRAM or not isinstance(plan.choice.knobs, str):
        return None
    inputs = tuple(operand.indices for operand in operands)
    sparse = tuple(isinstance(operand, Sparse) for operand in operands)
    candidate = listed(plan.choice.knobs, inputs, subscripts.output, sparse)
    if candidate is None:
        return None
    program = plan_of(candidate, operands, subscripts, is_dense_output=is_dense_output)
    return (plan, program) if program.fits(subscripts.extents) else None
