"""Run products: the default kernel from the first call on, what tuning found once it pays.

`matmul` is the hot path: whatever it does beside the kernel costs every user on every call.
"""

from __future__ import annotations

import dataclasses
from time import perf_counter_ns
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from autosparse import cache, planner
from autosparse._native import memory, runtime_api
from autosparse.config import Effort, get_options, parse_setting
from autosparse.engine import recollection
from autosparse.engine.experience import Experience, experience_of
from autosparse.engine.slot import Slot
from autosparse.engine.state import bench_of, deliberation_of, slot_for, target_of
from autosparse.engine.trials import Bench, Call, KernelTrial
from autosparse.errors import OptionError, ShapeError
from autosparse.log import progress_line
from autosparse.operand import NativeRows, Operand
from autosparse.ops import OPS
from autosparse.plan import Plan
from autosparse.problem import Problem
from autosparse.report import Report
from autosparse.target import Target
from autosparse.tuner import Progress

AnyArray = NDArray[Any]  # one of the native dtypes

LARGE_OUTPUT_BYTES: Final = 1 << 20
"""Results from here on take recycled pages: fresh ones cost as much as the product."""
_SCIPY: Final = "SciPy computes products of this matrix: its dtype or layout is not for our kernels"
_CONTIGUOUS_ALIGNED: Final = 0x101  # NPY_ARRAY_C_CONTIGUOUS | NPY_ARRAY_ALIGNED

_ffi, _lib, _address_of = runtime_api.ffi, runtime_api.lib, runtime_api.address_of
_from_buffer: Any = _ffi.from_buffer if runtime_api.available else None  # without the runtime nothing gets here


def matmul(operand: Operand, B: AnyArray, *, transposed: bool, out: AnyArray | None = None) -> AnyArray:
    """C = M @ B, or Mᵀ @ B when `transposed`; B (k,) or (k, n) of the operand's dtype, any strides.

    `out`, when given, has the right shape and dtype and rows without gaps between their entries, and shares no memory
    with B or the operand.
    """
    rows = operand.rows or operand.validate()
    n_vecs = ldb = 1 if B.ndim == 1 else B.shape[1]
    if B.flags.num & _CONTIGUOUS_ALIGNED == _CONTIGUOUS_ALIGNED:
        source = _from_buffer(B)
    else:
        B, ldb, source = _strided(B)
    n_out = rows.n_minor if transposed else rows.n_major
    if out is None:
        out = _empty((n_out,) if B.ndim == 1 else (n_out, n_vecs), rows.dtype)
        ldc, target = n_vecs, _from_buffer(out)
    else:
        ldc = out.strides[0] // out.itemsize
        target = _ffi.cast("void *", out.__array_interface__["data"][0])
    engine = operand.engine
    slot = engine.hot.get((n_vecs, transposed)) if engine is not None else None
    if slot is None or slot.options is not get_options() or slot.dtype is not rows.dtype:
        slot = slot_for(operand, rows, n_vecs, transposed)
    trial = slot.turn
    start_ns = perf_counter_ns()
    if trial is None or not trial.run(operand, _call(rows, B, out)):
        trial = _without(trial, operand)
        kernel = _lib.asp_csr_t_mm if transposed else _lib.asp_csr_mm
        code = kernel(
            rows.dtype_code, rows.index_code, rows.n_major, rows.n_minor, rows.indptr[0], rows.indices[0],
            rows.data[0], source, ldb, target, ldc, n_vecs, slot.threads or _lib.asp_max_threads(), slot.flags,
        )  # fmt: skip
        if code:
            raise MemoryError(f"the product needs more memory than there is (code {code})")
    took_ns = perf_counter_ns() - start_ns
    slot.n_calls += 1
    slot.product_ns += took_ns
    if trial is not None:
        slot.n_tuned += 1
        slot.tuned_ns += took_ns
    if slot.product_ns >= slot.next_look_ns:
        _look(slot, operand, n_vecs, trial, took_ns)
    return out


def _call(rows: NativeRows, B: AnyArray, out: AnyArray) -> Call:
    """The product as tuned kernels take it: vectors of adjacent elements, else row-major."""
    n_vecs = 1 if B.ndim == 1 else B.shape[1]
    if n_vecs == 1 and B.strides[0] != B.itemsize:
        B = np.ascontiguousarray(B)
    ldb, ldc = (1, out.strides[0] // out.itemsize) if n_vecs == 1 else (B.strides[0], out.strides[0])
    if n_vecs > 1:
        ldb, ldc = ldb // B.itemsize, ldc // out.itemsize
    return Call(rows, _address_of(B), ldb, _address_of(out), ldc, n_vecs, B)


def _empty(shape: tuple[int, ...], dtype: Any) -> AnyArray:
    n_bytes = dtype.itemsize * shape[0] * (shape[1] if len(shape) == 2 else 1)
    return np.empty(shape, dtype) if n_bytes < LARGE_OUTPUT_BYTES else memory.empty_output(shape, dtype)


def _strided(B: AnyArray) -> tuple[AnyArray, int, Any]:
    """(B or a row-major copy of it, entries between rows, address) for a B that is not simply contiguous."""
    itemsize = B.itemsize
    steps_evenly = B.flags.aligned and B.size > 0 and B.strides[0] % itemsize == 0
    if steps_evenly and (B.ndim == 1 or B.shape[1] == 1 or (B.strides[1] == itemsize and B.strides[0] > 0)):
        return B, B.strides[0] // itemsize, _ffi.cast("void *", B.__array_interface__["data"][0])
    B = np.array(B, order="C", ndmin=1)
    return B, 1 if B.ndim == 1 else B.shape[1], _from_buffer(B)


def _look(slot: Slot, operand: Operand, n_vecs: int, trial: Any, took_ns: int) -> None:
    """Off the hot path: tuning may want to go on."""
    if slot.deliberation is None:
        slot.begin(deliberation_of(slot, operand))
    slot.look(n_vecs, trial, took_ns)
    bench = slot.deliberation.bench if slot.deliberation else None
    if bench is not None and bench.is_stale:
        operand.engine = None


def _without(trial: KernelTrial | None, operand: Operand) -> KernelTrial | None:
    """Who serves when `trial` does not: nobody. If the matrix is another one now, what was found for it goes."""
    if trial is not None and operand.structure_version != trial.bench.structure_version:
        operand.engine = None
    return None


# -- tuning that was asked for, and what is known -------------------------------------------------------------------


def tune(
    operand: Operand,
    *,
    operation: str = "matmul",
    columns: int = 1,
    runs: int | None = None,
    effort: Effort | str | None = None,
    budget_s: float | None = None,
    transposed: bool = False,
    dtype: Any = None,
    progress: bool | Progress = False,
) -> Plan:
    """Find now what should run for ``op(M) @ B`` with B of `columns` columns, and let the next products use it.

    Takes at most about `budget_s` seconds (option budget_s). `effort` is at least "measure" unless given. With `runs`,
    nothing is begun that so many products would not pay back. `progress`: True draws a line on a terminal's stderr.
    """
    options = get_options()
    if operation not in OPS:
        raise OptionError.bad_value("operation", operation, domain=f"one of {', '.join(OPS)}")
    columns = _positive("columns", columns)
    wanted = parse_setting("effort", effort) if effort is not None else options.effort
    runs = parse_setting("runs", runs) if runs is not None else options.runs
    budget_s = parse_setting("budget_s", budget_s) if budget_s is not None else options.budget_s
    rows = operand.rows or operand.validate()
    if rows.dtype is None:
        return planner.default_plan(_SCIPY)
    if dtype is not None and np.dtype(dtype) != rows.dtype:
        raise OptionError.bad_value("dtype", str(dtype), domain=f"the dtype of the matrix, {rows.dtype}")
    operand.refresh()
    slot = slot_for(operand, rows, columns, transposed)
    slot.n_dense_cols = columns
    show = progress_line() if progress is True else progress or None
    bench = bench_of(operand, slot)
    decision = planner.plan(bench, runs=runs, effort=wanted, budget_s=budget_s, progress=show)
    deliberation = deliberation_of(slot, operand)
    deliberation.bench = bench
    slot.install(deliberation, decision.plan, decision.trial)
    return decision.plan


def _positive(name: str, value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < 1:
        raise OptionError.bad_value(name, value, domain="an integer >= 1", source="argument")
    return int(value)


def current_plan(operand: Operand, *, columns: int = 1, transposed: bool = False, dtype: Any = None) -> Plan:
    """What the next product of this width would run, without changing anything."""
    rows = operand.rows or operand.validate()
    if rows.dtype is None:
        return planner.default_plan(_SCIPY)
    return slot_for(operand, rows, columns, transposed).current_plan()


def report(operand: Operand, B: Any = 1, *, transposed: bool = False) -> Report:  # Any: whatever the product takes
    """Everything known about the problem ``op(M) @ B``, B the dense operand or its number of columns.

    Looks into the cache; runs and changes nothing.
    """
    columns = _columns(B, n_rows=operand.n_major if transposed else operand.n_minor)
    rows = operand.rows or operand.validate()
    if rows.dtype is None:
        return _scipy_report(operand, columns, transposed=transposed)
    slot = slot_for(operand, rows, columns, transposed)
    bench = bench_of(operand, slot)
    plan = slot.current_plan()
    if plan.is_default and not plan.candidates:
        known = recollection.recall(bench)
        plan = plan if known is None else dataclasses.replace(known, why=f"{known.why} (not in use yet)")
    return _report(slot, bench, plan)


def _columns(B: Any, *, n_rows: int) -> int:
    """Columns of the dense operand `B`, which may also be their number. ShapeError when B does not fit."""
    if isinstance(B, (int, np.integer)) and not isinstance(B, bool):
        return _positive("columns", B)
    shape = np.shape(B)
    if not 1 <= len(shape) <= 2 or shape[0] != n_rows:
        raise ShapeError.explained(shape, n_rows=n_rows)
    return max(1, shape[1]) if len(shape) == 2 else 1


def _report(slot: Slot, bench: Bench, plan: Plan) -> Report:
    problem, prices = bench.problem, bench.experience.prices
    account, outlook = slot.account(), slot.outlook()
    return Report(
        problem=problem,
        plan=plan,
        value_bytes=slot.dtype.itemsize,
        n_calls=account.n_calls,
        product_s=account.product_s,
        runs_expected=outlook.total_runs or bench.experience.runs_expected(slot.history_key),
        packed_bytes=bench.shelf.n_bytes,
        packed_limit_bytes=bench.limit_bytes,
        verdict=slot.verdict(),
        failures=tuple(bench.failures) + ((slot.failure,) if slot.failure else ()),
        tuning_s=account.tuning_s,
        saved_s=account.saved_s,
        default_s=plan.default_s or outlook.default_s or None,
        expected_gain=recollection.expected_gain(bench),
        prices_s={
            "hash": prices.price_s("hash", problem.pattern.csr_bytes(slot.dtype.itemsize)),
            "rank": prices.price_s("rank"),
            "compile": prices.price_s("compile"),
            "pack": prices.price_s("pack", problem.pattern.nnz),
        },
    )


def _scipy_report(operand: Operand, columns: int, *, transposed: bool) -> Report:
    """For products that SciPy computes: nothing is planned."""
    options = get_options()
    problem = Problem(
        operation="matmul", pattern=operand.pattern, transposed=transposed, n_dense_cols=columns,
        dtype=operand.dtype.name, threads=1, deterministic=options.deterministic, target=target_of(options),
    )  # fmt: skip
    return Report(problem=problem, plan=planner.default_plan(_SCIPY), value_bytes=operand.dtype.itemsize)


def experience() -> Experience:
    """Prices and histories of the cache in force."""
    return experience_of(cache.open_store(), Target.host())
