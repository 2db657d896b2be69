"""Tuning that a user calls by name: tune now, return the current plan, report everything.

Plans of products for which no kernel can be chosen say which library computes them, and why.
"""

from __future__ import annotations

import copy
import dataclasses
import time
import weakref
from typing import Any, Final

import numpy as np

from autosparse import _native
from autosparse._native import memory, runtime_api
from autosparse.config import Effort, get_options, parse_setting
from autosparse.core.composite import Composite, Schedule
from autosparse.core.pattern import Pattern
from autosparse.core.plan import Plan
from autosparse.core.problem import Problem
from autosparse.core.target import Target
from autosparse.dispatch import accounts
from autosparse.dispatch.protocols import HasDtype
from autosparse.dispatch.state import FIRST_FAST_PATH, DispatchState, state_for
from autosparse.errors import OptionError, ShapeError
from autosparse.log import progress_line
from autosparse.operands.csf import MAX_ORDER
from autosparse.operands.csr import INDICES, INDPTR, Operand
from autosparse.operands.unfolding import AnyOperand, Unfolding, while_reading
from autosparse.ops import MATMUL, OPS, names
from autosparse.scalar import INDEX_TEXT, REAL
from autosparse.tuner import Progress
from autosparse.tuner.features.statistics import pattern_facts
from autosparse.tuning import planner
from autosparse.tuning.amortization import Tier
from autosparse.tuning.live import LiveTuner
from autosparse.tuning.memory import misses, notes, plan_lookup
from autosparse.tuning.report import Report, verdict_of
from autosparse.tuning.setup import context_of, session_of
from autosparse.tuning.trials.context import TuningContext
from autosparse.tuning.trials.part_times import part_times

MAX_COLUMNS: Final = 2**31 - 1
"""Maximum number of dense columns (int32)."""


def tune(
    operand: AnyOperand,
    *,
    operation: str = MATMUL.name,
    columns: int = 1,
    runs: int | None = None,
    effort: Effort | str | None = None,
    budget_s: float | None = None,
    transposed: bool = False,
    dtype: Any = None,
    progress: bool | Progress = False,
) -> Plan:
    """Find a fast kernel for ``op(M) @ B``, B of `columns` columns, and use it in the next products.

    Operation ``sddmm`` means ``M ∘ (X @ Yᵀ)`` with `columns` columns of X; ``mttkrp`` is for tensors. Tuning takes at
    most about `budget_s` seconds; omitted arguments default to the options. With `runs`, tuning starts only if that
    many products pay for it; without `effort`, they also select the tier with the least expected total.
    `progress=True` draws a line on stderr if that is a terminal. `dtype`, if given, must be the matrix's own, because
    products of two dtypes are not tuned. An interrupt leaves the matrix unchanged; measurements are stored and start
    the next search.
    """
    options = get_options()
    operation, rows, columns, transposed = _checked(operand, operation, columns, transposed)
    wanted = parse_setting("effort", effort, source="argument") if effort is not None else options.effort
    runs = parse_setting("runs", runs, source="argument") if runs is not None else options.runs
    budget_s = parse_setting("budget_s", budget_s, source="argument") if budget_s is not None else options.budget_s
    if rows is None or rows.dtype is None:
        return unserved_plan(operand, operation)
    if dtype is not None and not _names(dtype, rows.dtype):
        raise OptionError.bad_value("dtype", dtype, domain=f"the dtype of the matrix, {rows.dtype}", source="argument")
    operand.refresh()
    state = state_for(operand, rows, columns, transposed, operation=operation)
    if state.early is not None:
        state.early.retire(state)  # its packed copy would take memory of the search
    state.n_dense_cols = columns
    context = context_of(operand, state)
    context.patience_s, context.ends_at = budget_s, time.monotonic() + budget_s
    asked: dict[str, Any] = {"runs": runs, "effort": wanted, "budget_s": budget_s, "may_lower": effort is None}
    asked["progress"] = progress_line() if progress is True else progress or None
    with memory.scratch_recycled():
        decision = while_reading(operand, lambda: planner.plan(context, **asked))
        if not isinstance(live_tuner := state.live_tuner, LiveTuner):
            live_tuner = state.live_tuner = LiveTuner(state, operand=weakref.ref(operand))
        live_tuner.install(session_of(live_tuner, operand, (context, decision)))
        if state.fast_path is None and state.fast_path_due <= FIRST_FAST_PATH:
            state.fast_path_due = 0  # who tunes multiplies often
        notes.note(context, decision.plan, is_asked=True)
        context.problem.pattern.forget()
    return decision.plan


def _checked(
    operand: AnyOperand, operation: object, columns: Any, transposed: bool
) -> tuple[str, HasDtype | None, int, bool]:
    """Return the checked arguments: operation, rows, columns, and whether the product is of the transpose.

    The operation is its name in `OPS`, also of a synonym. The rows are an object with the dtype of the kernels; None
    if SciPy or NumPy computes the product. Raise OptionError for an unknown operation or a bad number of columns.
    """
    kind = "tensor" if isinstance(operand, Unfolding) else "matrix"
    known = [row for row in OPS.values() if row.is_tuned and row.sparse == kind]
    names = {name: row.name for row in known for name in (row.name, *row.synonyms)}
    meant = names.get(operation, "") if isinstance(operation, str) else ""
    if not meant:
        domain = ", ".join((*(row.name for row in known), *(name for row in known for name in row.synonyms)))
        if not isinstance(operation, str):  # perhaps the dense operand
            domain += " (products with n columns: columns=n)"
        raise OptionError.bad_value("operation", operation, domain=f"one of {domain}", source="argument")
    is_number = isinstance(columns, (int, np.integer)) and not isinstance(columns, bool)
    if not is_number or not 1 <= columns <= MAX_COLUMNS:
        raise OptionError.bad_value("columns", columns, domain="an integer from 1 to 2**31 - 1", source="argument")
    transposed = transposed and "transposed" in OPS[meant].abilities  # other operations compute on the stored rows
    if isinstance(operand, Unfolding):
        return meant, operand if operand.has_kernels and operand.is_native else None, int(columns), transposed
    rows = operand.rows or operand.validate()
    is_typed = rows.dtype is not None and rows.dtype.name in OPS[meant].dtypes
    return meant, rows if is_typed else None, int(columns), transposed


def _names(given: Any, dtype: np.dtype[Any]) -> bool:
    """Return whether `given` denotes `dtype`; False if it denotes no dtype."""
    try:
        return bool(np.dtype(given) == dtype)
    except (TypeError, ValueError):
        return False


def current_plan(operand: Operand, *, columns: int = 1, transposed: bool = False) -> Plan:
    """Return the plan of the next product of this width, without changing anything."""
    rows = operand.rows or operand.validate()
    if rows.dtype is None:
        return unserved_plan(operand, MATMUL.name)
    return _driver(state_for(operand, rows, columns, transposed)).current_plan()


def _driver(state: DispatchState) -> LiveTuner:
    """Return the state's live tuner, or an idle one that is not stored in the state."""
    return state.live_tuner if isinstance(state.live_tuner, LiveTuner) else LiveTuner(state)


def report(
    operand: AnyOperand, B: Any = 1, *, transposed: bool = False, operation: str = MATMUL.name
) -> Report:  # Any: whatever the product takes
    """Return everything known about the problem ``op(M) @ B``, B the dense operand or its number of columns.

    For other operations B is the number of columns of the dense operands. The call reads the cache and changes nothing.
    Each part of a serving composite is timed alone for at most about 0.2 s, on synthetic dense operands.
    """
    turnable = {name for row in OPS.values() if "transposed" in row.abilities for name in (row.name, *row.synonyms)}
    if isinstance(operand, Operand) and isinstance(operation, str) and operation in turnable:
        B = _columns(B, n_rows=operand.n_major if transposed else operand.n_minor)
    operation, rows, columns, transposed = _checked(operand, operation, B, transposed)
    if rows is None or rows.dtype is None:
        return _unserved_report(operand, columns, operation=operation, transposed=transposed)
    state = state_for(operand, rows, columns, transposed, operation=operation)
    context = context_of(operand, state)
    plan = _driver(state).current_plan()
    if plan.is_default and not plan.candidates:
        known = plan_lookup.recall(context)
        plan = plan if known is None else dataclasses.replace(known, why=f"{known.why} (not in use yet)")
    if not (plan.remembered or plan.not_remembered):
        plan = dataclasses.replace(plan, not_remembered=misses.why_not_remembered(context))
    return while_reading(operand, lambda: _report(state, context, plan))


def _columns(B: Any, *, n_rows: int) -> Any:
    """Return the number of columns of `B`, or B if it is a number; raise ShapeError if B does not fit."""
    if isinstance(B, (int, np.integer)) and not isinstance(B, bool):
        return B
    shape = np.shape(B)
    if not 1 <= len(shape) <= 2 or shape[0] != n_rows:
        raise ShapeError.explained(shape, n_rows=n_rows)
    return max(1, shape[1]) if len(shape) == 2 else 1


def _report(state: DispatchState, context: TuningContext, plan: Plan) -> Report:
    problem, cost_estimates, pattern = context.problem, context.stats.cost_estimates, context.problem.pattern
    live_tuner = _driver(state)
    account, outlook, service = live_tuner.account(), live_tuner.outlook(), live_tuner.service
    return Report(
        problem=problem,
        plan=plan,
        value_bytes=state.dtype.itemsize,
        n_calls=account.n_calls,
        product_s=account.product_s,
        runs_expected=outlook.total_runs or accounts.expected_calls(state.options, context.account_key),
        packed_bytes=context.packed_copies.n_bytes + (state.turning.n_bytes if state.turning is not None else 0),
        packed_limit_bytes=context.limit_bytes,
        implementation=_implementation(plan, context),
        verdict=verdict_of(live_tuner),
        served=copy.copy(service.choice) if service is not None else None,
        has_in_place=service is not None and service.in_place is not None,
        failures=_failures(live_tuner, context),
        tuning_s=account.tuning_s,
        saved_s=account.saved_s,
        default_s=plan.default_s or outlook.default_s or None,
        expected_gain=plan_lookup.expected_gain(context),
        facts=pattern_facts(pattern, transposed=problem.transposed) if isinstance(pattern, Pattern) else None,
        rates_source=context.rates.source,
        cores_are_contended=bool(runtime_api.lib.asp_pool_is_contended()),
        tiers=_tiers(context, plan.default_s or outlook.default_s),
        part_times=part_times(context, state.serving, plan.schedule) if isinstance(plan.schedule, Composite) else (),
        prices_s={
            "hash": cost_estimates.price_s("hash", problem.operand_bytes),
            "rank": cost_estimates.price_s("rank"),
            "compile": cost_estimates.price_s("compile"),
            "pack": context.packing_s(),
        },
    )


def _implementation(plan: Plan, context: TuningContext) -> str:
    """Return the name of what computes the plan: an implementation of kernels, or a solver beside them."""
    if not plan.is_default and not isinstance(plan.schedule, Schedule):
        return plan.solver
    return _native.implementation_of(plan.schedule, context.options.compiler).name


def _failures(live_tuner: LiveTuner, context: TuningContext) -> tuple[str, ...]:
    """Return the reasons for kernels that failed in this process and for a tuner that failed, each once."""
    tuned = live_tuner.session.context if live_tuner.session is not None else None
    told = [*(tuned.failures if tuned is not None else ()), *context.failures, live_tuner.failure]
    return tuple(dict.fromkeys(one for one in told if one))


def _tiers(context: TuningContext, default_s: float) -> tuple[Tier, ...]:
    """Return price and gain of each tuning tier for this problem; none if `default_s`, a product's seconds, is 0."""
    if not default_s:
        return ()
    return tuple(planner.tiers(context, default_s=default_s, most=Effort.FULL, budget_s=context.options.budget_s))


def _unserved_report(operand: AnyOperand, columns: int, *, operation: str, transposed: bool) -> Report:
    """Return the report of a product of `columns` columns that no kernel supports."""
    options = get_options()
    target = Target.host().held_to(options.isa)
    problem = Problem(
        operation=operation, pattern=operand.pattern, transposed=transposed, n_dense_cols=columns,
        dtype=operand.dtype.name, threads=1, deterministic=options.deterministic, target=target,
        mode=operand.mode if isinstance(operand, Unfolding) else 0,
    )  # fmt: skip
    return Report(problem=problem, plan=unserved_plan(operand, operation), value_bytes=operand.dtype.itemsize)


def unserved_plan(operand: AnyOperand, operation: str) -> Plan:
    """Return the plan of a product for which no kernel can be chosen, with the reason."""
    row = OPS[operation]
    reference = row.library
    if not runtime_api.available:
        return planner.default_plan(f"{reference} computes every product: {runtime_api.fault}", served_by=reference)
    if isinstance(operand, Unfolding):
        return _unserved_tensor(operand)
    is_plain = operand.dtype.name in row.default_dtypes and (operand.rows or operand.validate()).dtype is not None
    if is_plain:
        return planner.default_plan(
            f"the default kernel computes {operand.dtype}: others of {row.name} are generated for real values"
        )
    if row.name == names.MATMUL and (operand.rows or operand.validate()).dtype_code >= 0:
        return planner.default_plan(
            f"the default kernel of dtype pairs computes {operand.dtype}, large products on all threads: others are "
            "generated for one floating-point or complex dtype"
        )
    why = _why_unfit(operand, row.dtypes)
    return planner.default_plan(f"{reference} computes this product: {why}", served_by=reference)


def _unserved_tensor(operand: Unfolding) -> Plan:
    order, dtype = len(operand.entries.shape), operand.dtype
    if not 2 <= order <= MAX_ORDER:
        why = f"autosparse kernels take tensors of 2 to {MAX_ORDER} modes, and this one has {order}"
        return planner.default_plan(f"NumPy computes this product: {why}", served_by="NumPy")
    what = "the tensor's are not contiguous, aligned and in the machine's byte order"
    if dtype.name not in REAL:
        what = f"kernels are generated for {_listed(REAL)}, and the tensor holds {dtype}"
    return planner.default_plan(f"the default kernel computes on values converted for each product: {what}")


def _why_unfit(operand: Operand, served: tuple[str, ...]) -> str:
    """Return a text on why the kernels cannot read the operand's arrays: dtype, indices, dimension or layout."""
    indptr, indices = operand.peek(INDPTR), operand.peek(INDICES)
    if operand.dtype.name not in served:
        return f"autosparse kernels compute in {_listed(served)}, and the matrix holds {operand.dtype}"
    if indptr.dtype != indices.dtype or indptr.dtype.name not in runtime_api.INDEX_CODES:
        kinds = " and ".join(dict.fromkeys((indptr.dtype.name, indices.dtype.name)))
        return f"autosparse kernels take {INDEX_TEXT} indices throughout, and the matrix has {kinds}"
    if operand._flat:
        return "autosparse kernels take matrices, and the array has one dimension"
    return "the matrix's arrays are not contiguous, aligned and in the machine's byte order"


def _listed(names: tuple[str, ...]) -> str:
    return f"{', '.join(names[:-1])} or {names[-1]}"
