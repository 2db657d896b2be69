"""Slot: what the hot path knows of one problem of one operand. Light: tuning is imported when it is thought of."""

from __future__ import annotations

import sys
import weakref
from typing import TYPE_CHECKING, Any, Final, Protocol

import numpy as np

from autosparse import forking
from autosparse._native import runtime_api
from autosparse.config import Effort, Options, get_options
from autosparse.engine.shelf import Shelf
from autosparse.log import event
from autosparse.notices import FallbackWarning, warn_once
from autosparse.operand import Operand

if TYPE_CHECKING:
    from autosparse.engine.driver import Driver
    from autosparse.engine.entry import Entry
    from autosparse.engine.trials import KernelTrial
    from autosparse.unfolding import Unfolding

FOREVER_NS: Final = 1 << 62
FIRST_STEP_S: Final = 2e-4
"""Price of the first step of tuning, a look into the cache: nothing is thought of before it is affordable."""
FIRST_IMPORT_S: Final = 0.06
"""... once per process, with loading the modules of tuning."""

FIRST_ENTRY: Final = 500
"""Products before a slot's first way past Python: it saves 2 us of each, its module takes 2,000 times that to load."""


class Slot:
    """One problem, (operation, transposed, columns bucket, dtype), under one set of options.

    Counts may lose an increment when threads collide, which costs nothing.
    """

    __slots__ = (
        "driver", "dtype", "entry", "entry_due", "entry_wait", "flags", "n_calls", "n_dense_cols", "n_tuned",
        "next_look_ns", "operation", "options", "product_ns", "threads", "transposed", "tuned_ns", "turn",
    )  # fmt: skip

    def __init__(
        self,
        options: Options,
        transposed: bool,
        dtype: np.dtype[Any],
        n_dense_cols: int,
        *,
        threads: int,
        flags: int,
        next_look_ns: float = FOREVER_NS,
        operation: str = "matmul",
    ) -> None:
        self.options = options
        self.transposed = transposed
        self.dtype = dtype
        self.n_dense_cols = n_dense_cols  # width of the first product: candidates are measured at this one
        self.threads = threads  # 0: let the kernel ask at every call
        self.flags = flags
        self.next_look_ns = next_look_ns  # when product_ns reaches this, the driver looks whether to go on with tuning
        self.turn: KernelTrial | None = None  # who computes the next product; None: the default kernel
        self.n_calls = self.product_ns = 0
        self.n_tuned = self.tuned_ns = 0  # products that a tuned kernel computed, and their time
        self.driver: Driver | None = None  # tuning, from the first look on
        self.operation = operation
        self.entry: Entry | None = None  # the way past Python, where one was opened
        self.entry_due = FIRST_ENTRY  # n_calls from which the next may be opened
        self.entry_wait = 2

    def count(self, took_ns: int, *, is_tuned: bool) -> None:
        """One product more."""
        self.n_calls += 1
        self.product_ns += took_ns
        if is_tuned:
            self.n_tuned += 1
            self.tuned_ns += took_ns

    def give_up(self, err: BaseException) -> None:
        """No tuning of this problem any more, and the default kernel for its products: something broke."""
        self.turn, self.next_look_ns, self.entry_due = None, FOREVER_NS, FOREVER_NS
        entry, self.entry = self.entry, None
        if entry is not None:
            entry.retire()
        reason = f"{type(err).__name__}: {err}"
        event("fallback", reason)
        warn_once(FallbackWarning, "tuning", f"tuning failed, products go on with the default kernel: {reason}")

    def take_few(self, operand: Operand) -> None:
        """Count the products of `operand` that were over before there was a slot."""
        self.n_calls += operand.n_few
        self.product_ns += operand.few_ns if operand.n_few else 0
        operand.n_few = 0

    def settle(self) -> None:
        """Count what was served past Python too."""
        if self.entry is not None:
            self.entry.settle(self)


class Engine:
    """State of one operand: a slot per problem and set of options, and the shelf of packed copies."""

    __slots__ = ("__weakref__", "hot", "shelf", "slots")

    def __init__(self) -> None:
        self.hot: dict[tuple[int, bool | str], Slot] = {}  # (columns, transposed or operation) -> the slot used last
        self.slots: dict[tuple[Any, ...], Slot] = {}
        self.shelf = Shelf()
        ENGINES.add(self)

    def __del__(self) -> None:
        # Slots and drivers refer to each other: without this, packed copies would wait for the garbage collector.
        for slot in self.slots.values():
            slot.turn = slot.driver = None

    def forget_threads(self) -> None:
        """In a forked child: products and tuning of other threads are not there any more."""
        self.shelf.forget_threads()
        for slot in self.slots.values():
            if slot.entry is not None:
                slot.entry.forget_threads()
            if slot.driver is not None:
                slot.driver.forget_threads()


ENGINES: Final[weakref.WeakSet[Engine]] = weakref.WeakSet()
"""All that are alive: their calls are counted when the process ends."""


@forking.in_child
def _forget_threads() -> None:
    for engine in list(ENGINES):
        engine.forget_threads()


def engine_of(operand: Operand | Unfolding) -> Engine:
    """The engine of `operand`, made when it has none."""
    engine: Engine | None = operand.engine
    if engine is None:
        engine = operand.engine = Engine()
    return engine


class HasDtype(Protocol):
    """Whatever tells the dtype that is computed in: the operand's rows, a dense operand."""

    @property
    def dtype(self) -> np.dtype[Any] | None:
        """None: not for our kernels."""


def slot_for(
    operand: Operand | Unfolding, rows: HasDtype, n_vecs: int, transposed: bool, *, operation: str = "matmul"
) -> Slot:
    """The slot of this problem under the options in force; becomes the hot one."""
    options, engine = get_options(), engine_of(operand)
    runtime_api.hold_isa(options.isa)
    assert rows.dtype is not None
    bucket = max(0, n_vecs - 1).bit_length()  # as problem.columns_bucket: tuning's modules are not imported yet
    key = (operation, bucket, transposed, rows.dtype.char, *_decisive(options))
    slot = engine.slots.get(key)
    if slot is None:
        flags = runtime_api.FLAG_DETERMINISTIC if options.deterministic else 0
        look_ns = (
            _first_look_ns(options, operation, n_vecs) if rows.dtype == operand.dtype else FOREVER_NS
        )  # converted values: untuned
        slot = Slot(
            options, transposed, rows.dtype, max(1, n_vecs), threads=options.threads or 0, flags=flags,
            next_look_ns=look_ns, operation=operation,
        )  # fmt: skip
        slot = engine.slots.setdefault(key, slot)
    slot.options, slot.dtype = options, rows.dtype
    engine.hot[n_vecs, transposed if operation == "matmul" else operation] = slot
    return slot


def _decisive(options: Options) -> tuple[Any, ...]:
    """The options that make another problem of it; the others only say what may be spent."""
    is_off = options.effort is Effort.OFF
    return (
        options.threads,
        options.deterministic,
        is_off,
        options.cache,
        options.cache_dir,
        options.isa,
        options.storage,
        options.compiler,
    )


def _first_look_ns(options: Options, operation: str, n_vecs: int) -> float:
    """Product time after which tuning is thought of."""
    if options.effort is Effort.OFF or options.deterministic or options.overhead <= 0:
        return float("inf")
    if options.runs is not None:
        return 0.0
    if "autosparse.engine.setup" in sys.modules:
        from autosparse.ops import OPS
        from autosparse.payoff import CREDIT

        gain = OPS[operation].prior_gain(n_vecs)
        return FIRST_STEP_S / ((1.0 + CREDIT * gain) * options.overhead) * 1e9
    return FIRST_IMPORT_S / options.overhead * 1e9
