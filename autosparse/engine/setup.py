"""Setup: how tuning of a slot's problem is put together from operand, options and cache."""

from __future__ import annotations

import dataclasses
import weakref
from collections.abc import Callable

from autosparse import cache
from autosparse._native import runtime_api
from autosparse.config import Options
from autosparse.engine.bench import Bench
from autosparse.engine.driver import Driver
from autosparse.engine.experience import before_flush, experience_of
from autosparse.engine.recollection import history_key
from autosparse.engine.slot import ENGINES, Slot, engine_of
from autosparse.planner import Deliberation
from autosparse.problem import Problem
from autosparse.target import Target
from autosparse.unfolding import AnyOperand, Unfolding


def driver_of(slot: Slot, operand: AnyOperand) -> Driver:
    """The driver of `slot`'s tuning; a new one has read and hashed nothing yet."""
    if slot.driver is None:
        driver = Driver(slot, operand=weakref.ref(operand))
        driver.begin(deliberation_of(driver, operand))
        slot.driver = driver
    return slot.driver


def deliberation_of(driver: Driver, operand: AnyOperand) -> Deliberation:
    """Planning of the driver's problem, to be done in steps."""
    slot = driver.slot
    options = slot.options
    experience = experience_of(cache.open_store(options), Target.host())
    reference = weakref.ref(operand)

    def name() -> str:
        return _name_in_history(reference(), slot)

    driver.name_in_history = name
    n_bytes = operand.structure_bytes + operand.nnz * slot.dtype.itemsize
    deliberation = Deliberation(
        make_bench=lambda: bench_of(_alive(reference), slot),
        effort=options.effort,
        recall_price_s=experience.prices.price_s("recall"),
        hash_price_s=experience.prices.price_s("hash", n_bytes),
        import_price_s=experience.prices.price_s("import"),
        runs_expected=lambda: experience.runs_expected(name()),
        total_runs=float(options.runs) if options.runs is not None else None,
    )
    if _report_counts not in _reporters:
        _reporters.append(_report_counts)
        before_flush(_report_counts)
    return deliberation


def _name_in_history(operand: AnyOperand | None, slot: Slot) -> str:
    """`history_key` of the slot's problem; "" when its operand is gone."""
    if operand is None:
        return ""
    return history_key(
        operand, operation=slot.operation, transposed=slot.transposed, n_dense_cols=slot.n_dense_cols,
        dtype=slot.dtype.name,
    )  # fmt: skip


_reporters: list[Callable[[], None]] = []


def _report_counts() -> None:
    """Tell histories about the calls that they do not know of yet (at exit)."""
    for engine in list(ENGINES):
        for slot in list(engine.slots.values()):
            driver = slot.driver
            if driver is not None and driver.deliberation is not None and driver.deliberation.bench is not None:
                driver.count_into(driver.deliberation.bench.experience)


def _alive(reference: Callable[[], AnyOperand | None]) -> AnyOperand:
    operand = reference()
    assert operand is not None, "steps are bought by products, and products hold their operand"
    return operand


def bench_of(operand: AnyOperand, slot: Slot) -> Bench:
    """Everything that trials of the slot's problem need; hashes the structure."""
    options = slot.options
    store = cache.open_store(options)
    target = target_of(options)
    engine = engine_of(operand)
    problem = Problem(
        operation=slot.operation, pattern=operand.pattern, transposed=slot.transposed, n_dense_cols=slot.n_dense_cols,
        dtype=slot.dtype.name, threads=options.threads or runtime_api.max_threads(),
        deterministic=options.deterministic, target=target,
        mode=operand.mode if isinstance(operand, Unfolding) else 0, storage=_storage_of(slot),
    )  # fmt: skip
    return Bench(
        problem=problem, operand=weakref.ref(operand), options=options, store=store,
        experience=experience_of(store, target), shelf=engine.shelf,
        structure_version=operand.structure_version,
    )  # fmt: skip


def _storage_of(slot: Slot) -> str:
    """What A's values may be rounded to: only products in float32 know other types."""
    return (slot.options.storage or "") if slot.operation == "matmul" and slot.dtype.name == "float32" else ""


def target_of(options: Options) -> Target:
    """This machine, held to the instruction set that options allow."""
    host = Target.host()
    order = ("baseline", "avx2", "avx512")
    if options.isa is None or order.index(options.isa) >= order.index(host.isa):
        return host
    return dataclasses.replace(host, isa=options.isa)
