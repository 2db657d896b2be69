"""Products of two sparse matrices where registered solvers compete: raced, planned, remembered and served.

Without a registered solver the runtime's own solvers compute each product, row by row by the cheapest (`ROW_SOLVERS`).
With one, the calls of a product are counted by the patterns of both operands. Once they have taken long enough, one
race times the runtime's solvers and the registered ones, and the winner is stored as the plan of these patterns.
"""

from __future__ import annotations

import dataclasses
import time
from typing import Final, NamedTuple

import numpy as np

from autosparse import cache
from autosparse._native import runtime_api
from autosparse._native.kernels import identity
from autosparse._native.kernels.spgemm import BY_CLASS, CompressedRows
from autosparse._native.kernels.spgemm import multiply as by_runtime
from autosparse._native.kernels.spgemm_solvers import ROW_SOLVERS, rows_of
from autosparse.config import Effort, Options
from autosparse.containment import contained
from autosparse.core.calls import Recent, ServedCalls
from autosparse.core.pattern import Pattern
from autosparse.core.plan import Candidate, Plan
from autosparse.core.problem import Problem
from autosparse.core.solver import DEFAULT, Bound, Choice, Solver, SparseOperand, SparsePair, SparseProductArguments
from autosparse.core.target import Target
from autosparse.errors import PackError, StructureError
from autosparse.log import event
from autosparse.notices import FallbackWarning, warn_once
from autosparse.operands.native_rows import check_bounds
from autosparse.ops import names
from autosparse.ops.registry import has_solvers, load_solvers
from autosparse.scalar import INDICES
from autosparse.tuner.search.race import RaceRule
from autosparse.tuner.search.selection import Selector
from autosparse.tuning.solvers.offered import cost_of, offer_of, reason_against, solver_named, solvers_of
from autosparse.tuning.trials.solver_arguments import read_only

MAX_PRODUCTS: Final = 64
"""Maximum number of products whose plans and prepared solvers a process keeps."""
CALLS_BEFORE_RACE: Final = 16
"""Minimum number of calls of a product, made or announced by the option `runs`, before its solvers race."""
MAX_RATIO: Final = 2.0
"""Maximum expected time of a row solver that races, as a multiple of the default solver's."""


class _Prepared(NamedTuple):
    """Solver that was prepared for two operands; results of built-in ones need no check."""

    bound: Bound
    is_built_in: bool


@dataclasses.dataclass(eq=False)
class _Product(ServedCalls):
    """Calls of one product of patterns, its plan, and the plan's solver once it is prepared."""

    plan: Plan | None = None
    prepared: _Prepared | None = None


_products: Final[Recent[tuple[str, object, bool], _Product]] = Recent(MAX_PRODUCTS)


def forget() -> None:
    """Drop the plans of this process, as a new process has none (for tests)."""
    _products.clear()


def problem_of(A: CompressedRows, B: CompressedRows, *, n_cols: int, options: Options) -> Problem:
    """Return the problem A @ B, whose patterns are hashed when the hashes are first read."""
    first, second = Pattern(A.n_rows, B.n_rows, *A[:2]), Pattern(B.n_rows, n_cols, *B[:2])
    return Problem(
        operation=names.SPGEMM, pattern=first, other=second, transposed=False, n_dense_cols=1, dtype=A.data.dtype.name,
        threads=options.threads or runtime_api.max_threads(), deterministic=options.deterministic,
        target=Target.host().held_to(options.isa),
    )  # fmt: skip


def multiply(A: CompressedRows, B: CompressedRows, *, n_cols: int, options: Options) -> CompressedRows:
    """Return the rows of A @ B by the plan of these patterns; race the solvers where that is due."""
    problem = problem_of(A, B, n_cols=n_cols, options=options)
    key, pair = key_of(problem, options), _pair(A, B, problem)
    product = _product_of(key, problem, options)
    is_found = product.plan is not None and product.plan.satisfies(options.effort)
    may_race = options.effort.rank >= Effort.MEASURE.rank and not options.deterministic and not is_found
    if may_race and (limit_s := min(options.budget_s, product.expected_s(CALLS_BEFORE_RACE))):
        product.plan, product.prepared = _raced(problem, pair, options, limit_s)
        cache.open_store(options).save("plan", key.stable_hash(), cache.plan_to_record(product.plan, key))
    start_s = time.perf_counter()
    rows = _served(product, problem, pair, options)
    product.count(time.perf_counter() - start_s)
    return rows


def plan_for(problem: Problem, options: Options) -> Plan | None:
    """Return the plan of the next product `problem`, for explanations; None if no registered solver competes."""
    load_solvers()
    may_compete = problem.dtype in runtime_api.DTYPE_CODES and has_solvers(names.SPGEMM)
    if not may_compete or options.deterministic or options.effort is Effort.OFF:
        return None
    found = _product_of(key_of(problem, options), problem, options).plan
    if found is not None:
        return found
    waiting, refused = _candidates(problem, options)
    why = f"the solvers have not raced: {CALLS_BEFORE_RACE} calls, made or announced by the option runs, come first"
    return Plan(choice=DEFAULT, why=why, candidates=(_default(problem), *waiting, *refused))


def key_of(problem: Problem, options: Options) -> cache.PlanKey:
    """Return the key of the problem's plan: both patterns, and the solvers that may compete."""
    assert problem.other is not None
    toolchain = identity.toolchain_of(options.compiler)
    solvers = solvers_of(options, problem.operation)
    key = cache.PlanKey.of(problem, space="row solvers", toolchain=toolchain, solvers=solvers)
    return dataclasses.replace(key, pattern=f"{problem.pattern.sparsity_hash} {problem.other.sparsity_hash}")


def _product_of(key: cache.PlanKey, problem: Problem, options: Options) -> _Product:
    """Return the product's calls in this process; where there are none, with the plan that is stored."""
    name = key.stable_hash(), options.cache_dir, options.cache
    found = _products.get(name)
    return _products.keep(name, _Product(plan=_recalled(key, problem, options))) if found is None else found


def _recalled(key: cache.PlanKey, problem: Problem, options: Options) -> Plan | None:
    """Return the stored plan if its solver is there and computes the problem; else None."""
    found = cache.stored_plan(cache.open_store(options), key)
    if found is None or found.is_default:
        return found
    solver = _solver(found.solver, options)
    return found if solver is not None and reason_against(solver, problem) is None else None


# -- serving


def _pair(A: CompressedRows, B: CompressedRows, problem: Problem) -> SparsePair:
    """Return the operands as solvers get them."""
    assert problem.other is not None
    left, right = (
        SparseOperand(
            operation=problem.operation, indptr=read_only(rows.indptr), indices=read_only(rows.indices[:nnz]),
            data=read_only(rows.data[:nnz]), shape=pattern.shape, transposed=False, n_threads=problem.threads,
        )
        for rows, pattern, nnz in ((A, problem.matrix, problem.matrix.nnz), (B, problem.other, problem.other.nnz))
    )  # fmt: skip
    return SparsePair(operation=problem.operation, left=left, right=right, n_threads=problem.threads)


def _served(product: _Product, problem: Problem, pair: SparsePair, options: Options) -> CompressedRows:
    """Return the rows of the product by its plan; by the default solver without one, or where the plan's fails."""
    plan = product.plan
    if plan is None or plan.is_default or options.deterministic:
        return _by_default(pair)
    try:
        if product.prepared is not None:
            return _computed(product.prepared, pair)
        prepared = _prepared(problem, pair, plan.choice, options)
        wanted = _by_default(pair)
        wrong = _difference(_computed(prepared, pair), wanted, pair)
        if wrong is not None:
            raise PackError(wrong)
        product.prepared = prepared
        return wanted
    except contained() as err:
        reason = f"{type(err).__name__}: {err}".split("\n", 1)[0]
        event("fallback", reason, error=err)
        warn_once(FallbackWarning, "run", f"a solver failed, the default kernel is used: {reason}")
        why = f"the solver {plan.solver} cannot be used: {reason}"
        product.plan, product.prepared = dataclasses.replace(plan, choice=DEFAULT, why=why), None
        return _by_default(pair)


def _by_default(pair: SparsePair) -> CompressedRows:
    left, right = rows_of(pair.left), rows_of(pair.right)
    return by_runtime(left, right, n_cols=pair.right.shape[1], threads=pair.n_threads)


def _computed(prepared: _Prepared, pair: SparsePair) -> CompressedRows:
    """Return the rows that a prepared solver computes; raise PackError if they are no valid rows of the product."""
    one = SparseProductArguments(operation=pair.operation, left=pair.left, right=pair.right, n_threads=pair.n_threads)
    if prepared.bound.run(one) is False or one.C is None:
        raise PackError("the solver set no result C")
    rows = CompressedRows(*map(np.ascontiguousarray, one.C))
    if prepared.is_built_in:
        return rows
    types = [array.dtype for array in rows]
    if types[0] != types[1] or types[0].name not in INDICES or types[2] != pair.left.data.dtype:
        raise PackError(f"C has arrays of the dtypes {', '.join(map(str, types))}")
    try:
        check_bounds(*rows, (pair.left.shape[0], pair.right.shape[1]), checked=False)
    except StructureError as err:
        raise PackError(f"C is no valid structure: {err}".split("\n", 1)[0]) from err
    given = (*rows_of(pair.left), *rows_of(pair.right))
    return CompressedRows(*(one.copy() if any(np.may_share_memory(one, two) for two in given) else one for one in rows))


def _difference(found: CompressedRows, wanted: CompressedRows, pair: SparsePair) -> str | None:
    """Return a text on how a result differs from the default solver's; None if only by order, or by rounding.

    Two sums of row i of A differ by at most about ``n * eps * sum |A[i, k]| max |B[k]|``, n the number of its entries.
    """
    from scipy.sparse import csr_array

    shape = pair.left.shape[0], pair.right.shape[1]
    result, expected = (csr_array(one[::-1], shape=shape, copy=True) for one in (found, wanted))
    result.sort_indices()
    expected.sort_indices()
    if not np.array_equal(result.indptr, expected.indptr) or not np.array_equal(result.indices, expected.indices):
        return f"a result with {result.nnz:,} entries in other places than the {expected.nnz:,} of the default solver"
    A, B = (abs(csr_array(rows_of(one)[::-1], shape=one.shape)) for one in (pair.left, pair.right))
    sums = A @ (B.max(axis=1).toarray().ravel() if B.shape[1] else np.zeros(B.shape[0], B.dtype))
    info = np.finfo(wanted.data.dtype)
    with np.errstate(all="ignore"):
        limits = (np.diff(A.indptr) + 4) * (float(info.eps) * sums + float(info.tiny))
        limits = np.repeat(limits, np.diff(expected.indptr))
        is_off = ~(np.abs(result.data - expected.data) <= limits) & np.isfinite(limits) & np.isfinite(expected.data)
    if not is_off.any():
        return None
    at = int(np.argmax(is_off))
    return f"{result.data[at]:.9g} instead of {expected.data[at]:.9g} in entry {at} of the result"


# -- racing


def _solver(name: str, options: Options) -> Solver | None:
    """Return the runtime's or the registered solver `name`; None if there is none."""
    return next((one for one in ROW_SOLVERS if one.name == name), None) or solver_named(name, options, names.SPGEMM)


def _prepared(problem: Problem, pair: SparsePair, choice: Choice, options: Options) -> _Prepared:
    """Return the solver of `choice`, prepared for the operands; raise PackError if that fails."""
    solver = _solver(choice.solver, options)
    if solver is None:
        raise PackError(f"no solver {choice.solver} is registered")
    try:
        return _Prepared(solver.prepare(pair, choice.knobs), solver in ROW_SOLVERS)
    except contained() as err:
        raise PackError(f"{type(err).__name__}: {err}") from err


def _candidates(problem: Problem, options: Options) -> tuple[list[Candidate], tuple[Candidate, ...]]:
    """Return the candidates beside the default solver, cheapest of the runtime's first, and the refused ones."""
    default, *others = ((one, one.cost(problem, None)) for one in ROW_SOLVERS)
    limit_s = MAX_RATIO * (default[1].seconds or 0.0)
    found = [
        Candidate(choice=Choice(one.name), name=one.name, predicted_s=cost.seconds, pack_s=cost.setup_s)
        for one, cost in others
        if one.applicable(problem) is None and cost.seconds is not None and cost.seconds <= limit_s
    ]
    offer = offer_of(problem, options)
    for choice in offer.choices:
        solver = solver_named(choice.solver, options, names.SPGEMM)
        if solver is not None:
            cost = cost_of(solver, problem, choice)
            found.append(Candidate(choice=choice, predicted_s=cost.seconds, pack_s=cost.setup_s))
    return found, offer.refused


def _default(problem: Problem) -> Candidate:
    return Candidate(choice=DEFAULT, name=BY_CLASS, predicted_s=ROW_SOLVERS[0].cost(problem, None).seconds)


def _raced(problem: Problem, pair: SparsePair, options: Options, limit_s: float) -> tuple[Plan, _Prepared | None]:
    """Return the plan that a race of at most about `limit_s` seconds finds, and its prepared solver."""
    start_s, wanted = time.perf_counter(), _by_default(pair)
    waiting, refused = _candidates(problem, options)

    def difference(one: _Prepared) -> str | None:
        try:
            return _difference(_computed(one, pair), wanted, pair)
        except contained() as err:
            return f"{type(err).__name__}: {err}".split("\n", 1)[0]

    selector: Selector[_Prepared] = Selector(
        prepare=lambda choice: _prepared(problem, pair, choice, options),
        measure=lambda one: measured_s(one, pair),
        difference=difference,
        default=_default(problem),
        rule=RaceRule(cut_short=3),
        limit_s=limit_s,
    )
    found = selector.select(waiting)
    name = BY_CLASS if found.choice.is_default else found.choice.solver
    why = f"{name} was the fastest of {len(found.candidates)} solvers that were timed in turn"
    plan = found.plan(why=why, effort=options.effort, tune_s=time.perf_counter() - start_s, refused=refused)
    event("plan", plan.why, schedule=plan.choice.text, seconds=plan.tune_s)
    return plan, found.bound


def measured_s(prepared: _Prepared | None, pair: SparsePair) -> float:
    """Return the seconds of one product by a prepared solver, None: by the default one."""
    start_s = time.perf_counter()
    if prepared is None:
        _by_default(pair)
    else:
        _computed(prepared, pair)
    return time.perf_counter() - start_s
