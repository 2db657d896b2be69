"""State: what the executor keeps per operand, and how a slot's tuning is set up."""

from __future__ import annotations

import dataclasses
import weakref
from collections.abc import Callable
from typing import Any

from autosparse import cache
from autosparse._native import runtime_api
from autosparse.config import Effort, Options, get_options
from autosparse.engine.experience import before_flush, experience_of
from autosparse.engine.recollection import history_key
from autosparse.engine.shelf import Shelf
from autosparse.engine.slot import Slot
from autosparse.engine.trials import Bench
from autosparse.operand import NativeRows, Operand
from autosparse.planner import Deliberation
from autosparse.problem import Problem, columns_bucket
from autosparse.target import Target


class Engine:
    """Executor's state of one operand: a slot per problem and set of options, and the shelf of packed copies."""

    __slots__ = ("__weakref__", "hot", "shelf", "slots")

    def __init__(self) -> None:
        self.hot: dict[tuple[int, bool], Slot] = {}  # (columns, transposed) -> the slot used last
        self.slots: dict[tuple[Any, ...], Slot] = {}
        self.shelf = Shelf()


_engines: weakref.WeakSet[Engine] = weakref.WeakSet()


def slot_for(operand: Operand, rows: NativeRows, n_vecs: int, transposed: bool) -> Slot:
    """The slot of this problem under the options in force; becomes the hot one."""
    options = get_options()
    engine = operand.engine or _new_engine(operand)
    assert rows.dtype is not None
    key = (columns_bucket(n_vecs), transposed, rows.dtype.char, *_decisive(options))
    slot = engine.slots.get(key)
    if slot is None:
        slot = Slot(
            options=options, transposed=transposed, dtype=rows.dtype, n_dense_cols=max(1, n_vecs),
            threads=options.threads or 0,
            flags=runtime_api.FLAG_DETERMINISTIC if options.deterministic else 0,
        )  # fmt: skip
        slot.next_look_ns = _first_look_ns(options)
        slot = engine.slots.setdefault(key, slot)
    assert isinstance(slot, Slot)
    slot.options, slot.dtype = options, rows.dtype
    engine.hot[n_vecs, transposed] = slot
    return slot


def _new_engine(operand: Operand) -> Engine:
    engine = operand.engine = Engine()
    _engines.add(engine)
    return engine


def _decisive(options: Options) -> tuple[Any, ...]:
    """The options that make another problem of it; the others only say what may be spent."""
    is_off = options.effort is Effort.OFF
    return options.threads, options.deterministic, is_off, options.cache, options.cache_dir, options.isa


def _first_look_ns(options: Options) -> float:
    """Product time after which tuning is thought of: when its first step, a look into the cache, is affordable."""
    if options.effort is Effort.OFF or options.deterministic or options.overhead <= 0:
        return float("inf")
    if options.runs is not None:
        return 0.0
    store = cache.open_store(options)
    return experience_of(store, Target.host()).prices.price_s("recall") / options.overhead * 1e9


def deliberation_of(slot: Slot, operand: Operand) -> Deliberation:
    """Tuning of `slot`'s problem, to be done in steps: nothing is read or hashed yet."""
    options = slot.options
    experience = experience_of(cache.open_store(options), Target.host())
    dtype = slot.dtype.name
    slot.history_key = history_key(
        operand, operation="matmul", transposed=slot.transposed, n_dense_cols=slot.n_dense_cols, dtype=dtype
    )
    reference = weakref.ref(operand)
    key = slot.history_key
    n_bytes = operand.nnz * (operand.indices.itemsize + slot.dtype.itemsize)
    deliberation = Deliberation(
        make_bench=lambda: bench_of(_alive(reference), slot),
        effort=options.effort,
        recall_price_s=experience.prices.price_s("recall"),
        hash_price_s=experience.prices.price_s("hash", n_bytes),
        import_price_s=experience.prices.price_s("import"),
        runs_expected=lambda: experience.runs_expected(key),
        total_runs=float(options.runs) if options.runs is not None else None,
    )
    if _report_counts not in _reporters:
        _reporters.append(_report_counts)
        before_flush(_report_counts)
    return deliberation


_reporters: list[Callable[[], None]] = []


def _report_counts() -> None:
    """Tell histories about the calls that they do not know of yet (at exit)."""
    for engine in list(_engines):
        for slot in list(engine.slots.values()):
            if slot.deliberation is not None and slot.deliberation.bench is not None:
                slot.count_into(slot.deliberation.bench.experience)


def _alive(reference: weakref.ref[Operand]) -> Operand:
    operand = reference()
    assert operand is not None, "steps are bought by products, and products hold their operand"
    return operand


def bench_of(operand: Operand, slot: Slot) -> Bench:
    """Everything that trials of the slot's problem need; hashes the structure."""
    options = slot.options
    store = cache.open_store(options)
    target = target_of(options)
    pattern = operand.pattern
    engine = operand.engine or _new_engine(operand)
    problem = Problem(
        operation="matmul", pattern=pattern, transposed=slot.transposed, n_dense_cols=slot.n_dense_cols,
        dtype=slot.dtype.name, threads=options.threads or runtime_api.max_threads(),
        deterministic=options.deterministic, target=target,
    )  # fmt: skip
    return Bench(
        problem=problem, operand=weakref.ref(operand), options=options, store=store,
        experience=experience_of(store, target), shelf=engine.shelf,
        structure_version=operand.structure_version,
    )  # fmt: skip


def target_of(options: Options) -> Target:
    """This machine, held to the instruction set that options allow."""
    host = Target.host()
    order = ("baseline", "avx2", "avx512")
    if options.isa is None or order.index(options.isa) >= order.index(host.isa):
        return host
    return dataclasses.replace(host, isa=options.isa)
