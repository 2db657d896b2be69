"""DispatchState: counts, options and serving kernel of one problem of one operand. Tuning is imported on demand."""

from __future__ import annotations

import sys
import weakref
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from autosparse import forking
from autosparse._native import runtime_api
from autosparse.config import Effort, Options, decisive_options, get_options
from autosparse.configured import MAX_BYTES, account_key, accounts_content, xdg_cache_home
from autosparse.dispatch import number
from autosparse.log import event  # imported now, because a fallback must not import (no descriptors, another root)
from autosparse.notices import FallbackWarning, warn_once
from autosparse.operands.csr import Operand
from autosparse.operands.packed_copies import PackedCopyCache
from autosparse.ops import names

if TYPE_CHECKING:
    from collections.abc import Callable

    from autosparse.dispatch.accounts import ProblemAccount
    from autosparse.dispatch.expectations import Expected
    from autosparse.dispatch.protocols import FastCall, FirstRace, HasDtype, Serving, Tuning
    from autosparse.dispatch.turned import Turning
    from autosparse.operands.unfolding import Unfolding

FOREVER_NS: Final = 1 << 62
FIRST_STEP_S: Final = number("first look", "first step s")
"""Cost in seconds of the first tuning step, a cache lookup. Tuning is not considered before the budget covers it."""
FIRST_IMPORT_S: Final = number("first look", "import s")
"""Cost in seconds of loading the modules of tuning, once per process."""
FIRST_IMPORT_ADVANCE: Final = 0.5
"""Advance on loading the modules, as a multiple of the overhead share, for products with a vector.

A program of 0.3 s must not pay for modules that it never uses (docs/design/tuning-policy.md has measurements). The
modules that know the expected gain are not loaded yet.
"""
FIRST_GLANCE_S: Final = number("first look", "glance s")
"""Product time in seconds, times the option `overhead`, after which a problem's account is read: 1.5 ms at 4 %."""
COLD_LOOK_S: Final = number("first look", "cold look s")
"""Cost in seconds of a problem's first look where no earlier process left an account of it."""
_MAX_ADVANCE: Final = number("amortisation", "maximum advance")  # that of `accounts`, which is not loaded yet
FIRST_FAST_PATH: Final = 100
"""Number of products before a state's first fast path, which saves 2 to 10 us each; loading its module takes 0.6 ms."""
LATER_FAST_PATH: Final = 40
"""The same once the module is loaded: opening a fast path takes as long as 10 to 25 products with it save."""
TURNED_FROM_ENTRIES: Final = 1 << 12
"""Minimum number of stored entries for products Mᵀ @ B by rows of Mᵀ (`turned`).

A smaller product takes under 6 us, of which the rows would save less than 1 us.
"""
TURNED_FROM_PRODUCTS: Final = 1 << 17
"""Minimum number of multiplications of such a product with several columns."""


def _first_fast_path() -> int:
    """Return the number of products before a state's first fast path."""
    is_loaded = "autosparse.dispatch.fast_path" in sys.modules
    return min(FIRST_FAST_PATH, LATER_FAST_PATH) if is_loaded else FIRST_FAST_PATH


class DispatchState:
    """State of one problem (operation, transposed, columns bucket, dtype) under one set of decisive options.

    Counts may lose an increment when threads collide, which has no consequence.
    """

    __slots__ = (
        "account", "sampling_calls", "sampling_due", "decisive", "dtype", "early", "expected",
        "early_shape", "fast_path", "fast_path_due", "fast_path_wait", "flags",
        "is_known", "is_looked_at", "is_noted", "may_race", "recalled", "solver_ns",
        "live_tuner", "n_calls", "n_dense_cols", "n_tuned", "next_look_ns", "operation", "options", "product_ns",
        "serving", "threads", "transposed", "tuned_ns", "turning",
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
        operation: str = names.MATMUL,
        decisive: tuple[Any, ...] | None = None,
    ) -> None:
        self.options = options  # options at the last look: budget, and where plans are remembered
        self.decisive = decisive_options() if decisive is None else decisive  # the same object for equal values
        self.transposed = transposed
        self.dtype = dtype
        self.n_dense_cols = n_dense_cols  # width of the first product, at which candidates are measured
        self.threads, self.flags = threads, flags  # threads 0: the kernel asks for the maximum at every call
        self.next_look_ns = next_look_ns  # value of product_ns from which tuning may continue
        self.serving: Serving | None = None  # kernel of the next product; None: the default kernel
        self.n_calls = self.product_ns = 0
        self.n_tuned = self.tuned_ns = 0  # number and time of products by tuned kernels
        self.recalled: Serving | None = None  # kernel of a remembered plan, which serves before tuning begins
        self.live_tuner: Tuning | None = None  # set by the first look that begins tuning
        self.operation = operation
        self.expected: Expected | None = None  # products that a running solver expects
        self.solver_ns: int | None = None  # time of finished solves beside products; None: no solver has run
        self.is_known = False  # whether the account across processes was read
        self.is_noted: bool | None = None  # whether earlier processes may have left that account; None: not looked up
        self.account: ProblemAccount | None = None  # None: not read, or the cache is off
        self.is_looked_at = False  # whether the arrays were checked for writes, so that the next check finds new ones
        self.early: FirstRace | None = None  # race with a shipped kernel before tuning is loaded; None: not begun
        self.may_race = True  # False: no shipped kernel suits the matrix, or a program writes values between products
        self.early_shape: tuple[int, int] | None = None  # rows of a slice and sigma of that race, once they are known
        self.fast_path: FastCall | None = None  # fast path, once one was opened
        self.fast_path_due, self.fast_path_wait = _first_fast_path(), 2  # n_calls from which the next may be opened
        self.sampling_calls: dict[int, FastCall] | None = None  # sampling fast paths, by id(kernel's trial)
        self.turning: Turning | None = None  # account of products Mᵀ @ B that rows of Mᵀ may compute
        self.sampling_due = 0  # n_calls from which sampling calls may be made

    @property
    def is_sampled(self) -> bool:
        """Return whether products may be samples, which are computed by sampling fast paths."""
        return self.live_tuner is not None or (self.early is not None and self.early.is_racing)

    def count(self, took_ns: int, *, is_tuned: bool) -> None:
        """Count one product."""
        self.n_calls += 1
        self.product_ns += took_ns
        if is_tuned:
            self.n_tuned += 1
            self.tuned_ns += took_ns

    def give_up(self, err: BaseException) -> None:
        """Stop tuning this problem after a failure; the default kernel computes its products from now on."""
        self.serving, self.next_look_ns, self.fast_path_due = None, FOREVER_NS, FOREVER_NS
        fast_path, self.fast_path, self.sampling_calls = self.fast_path, None, None
        if fast_path is not None:
            fast_path.retire()
        reason = f"{type(err).__name__}: {err}"
        event("fallback", reason, error=err)
        warn_once(FallbackWarning, "tuning", f"tuning failed, products go on with the default kernel: {reason}")

    def take_small_products(self, operand: Operand) -> None:
        """Add the products of `operand` that were computed before the state existed."""
        self.n_calls += operand.n_small_products
        self.product_ns += operand.small_product_ns if operand.n_small_products else 0
        operand.n_small_products = 0

    def add_solver_time(self, other_ns: int) -> None:
        """Add the time of a finished solve beside its products, which pays for a first look as products do."""
        self.solver_ns = (self.solver_ns or 0) + other_ns
        if self.live_tuner is None and self.next_look_ns < FOREVER_NS:
            self.next_look_ns -= other_ns
            self.commit()

    def commit(self) -> None:
        """Add the products that fast calls served to the counts."""
        if self.fast_path is not None:
            self.fast_path.commit(self)


class Dispatcher:
    """States of one operand, one per problem and set of options, and its packed copies."""

    __slots__ = ("__weakref__", "hot", "packed_copies", "states", "structure_version", "turning")

    def __init__(self, structure_version: int) -> None:
        self.structure_version = structure_version  # of the operand whose copies and plans these are
        self.hot: dict[tuple[int, bool | str], DispatchState] = {}  # by (columns, transposed or operation)
        self.states: dict[tuple[Any, ...], DispatchState] = {}
        self.packed_copies = PackedCopyCache()
        self.turning: Turning | None = None
        DISPATCHERS.add(self)

    def __del__(self, is_finalizing: Callable[[], bool] = sys.is_finalizing) -> None:
        # States and live tuners refer to each other: without this, packed copies would stay until a garbage collection.
        # At the end of the process, modules that the accounts need may be gone.
        if is_finalizing():
            return
        for state in self.states.values():
            if state.account is not None:
                state.account.collect(state)
            state.serving = state.recalled = state.live_tuner = state.sampling_calls = state.early = None

    def forget_threads(self) -> None:
        """Reset products and tuning of other threads in a forked child."""
        self.packed_copies.forget_threads()
        for state in self.states.values():
            for path in (state.fast_path, *(state.sampling_calls or {}).values()):
                if path is not None:
                    path.forget_threads()
            for one in (state.live_tuner, state.early):
                if one is not None:
                    one.forget_threads()


DISPATCHERS: Final[weakref.WeakSet[Dispatcher]] = weakref.WeakSet()
"""Dispatchers that are alive. Their calls are counted when the process ends."""


@forking.in_child
def _forget_threads() -> None:
    for dispatcher in list(DISPATCHERS):
        dispatcher.forget_threads()


def dispatcher_of(operand: Operand | Unfolding) -> Dispatcher:
    """Return the dispatcher of `operand`, made when it has none for its structure at the last check for writes."""
    dispatcher: Dispatcher | None = operand.dispatcher
    if dispatcher is None or dispatcher.structure_version != operand.structure_version:
        dispatcher = operand.dispatcher = Dispatcher(operand.structure_version)
    return dispatcher


def state_for(
    operand: Operand | Unfolding, rows: HasDtype, n_vecs: int, transposed: bool, *, operation: str = names.MATMUL
) -> DispatchState:
    """Return the state of this problem under the options in force, made if there is none, and enter it in `hot`."""
    options, decisive, dispatcher = get_options(), decisive_options(), dispatcher_of(operand)
    runtime_api.hold(options.isa, options.wait)
    assert rows.dtype is not None
    bucket = max(0, n_vecs - 1).bit_length()  # like problem.columns_bucket, whose module is not imported yet
    key = (operation, bucket, transposed, rows.dtype.char, decisive)
    state = dispatcher.states.get(key)
    if state is None:
        flags = runtime_api.FLAG_DETERMINISTIC if options.deterministic else 0
        look_ns = (
            _first_look_ns(options, operation, n_vecs) if rows.dtype == operand.dtype else FOREVER_NS
        )  # converted values are not tuned
        state = DispatchState(
            options, transposed, rows.dtype, max(1, n_vecs), threads=options.threads or 0, flags=flags,
            next_look_ns=look_ns, operation=operation, decisive=decisive,
        )  # fmt: skip
        state = dispatcher.states.setdefault(key, state)
        if transposed and operation == names.MATMUL and not flags:
            state.turning = _turning_of(operand, n_vecs, options, dispatcher)
    state.options, state.dtype = options, rows.dtype
    if state.serving is None and len(dispatcher.states) > 1:
        _borrow(state, key, dispatcher)
    dispatcher.hot[n_vecs, transposed if operation == names.MATMUL else operation] = state
    return state


def _turning_of(operand: Any, n_vecs: int, options: Options, dispatcher: Dispatcher) -> Turning | None:
    """Return the account of products Mᵀ @ B of an operand; None if it is too small, or `overhead` is 0."""
    is_small = operand.nnz < TURNED_FROM_ENTRIES and operand.nnz * n_vecs < TURNED_FROM_PRODUCTS
    if options.overhead <= 0 or is_small:
        return None
    if dispatcher.turning is None:
        try:
            from autosparse.dispatch.turned import Turning  # many programs have no transposed product
        except (ImportError, OSError):  # no file descriptor left, or another root directory
            return None
        dispatcher.turning = Turning()
    return dispatcher.turning


def _borrow(state: DispatchState, key: tuple[Any, ...], dispatcher: Dispatcher) -> None:
    """Let plans that other options found for the problem of `state` serve it, if the options in force allow them."""
    for other_key, other in list(dispatcher.states.items()):
        if other is not state and other_key[:-1] == key[:-1] and other.live_tuner is not None:
            other.live_tuner.lend(state)


def _first_look_ns(options: Options, operation: str, n_vecs: int) -> float:
    """Return the total product time (ns) of a problem after which its first look runs; see `dispatch.first_look`."""
    if options.effort is Effort.OFF or options.deterministic:
        return float("inf")
    if options.overhead <= 0:  # other options may be in force by then
        return FIRST_IMPORT_S * 1e9
    if options.runs is not None:
        return 0.0
    return min(FIRST_GLANCE_S / options.overhead * 1e9, tuning_look_ns(options, operation, n_vecs))


def is_unpaid(state: DispatchState, operand: Operand | Unfolding) -> bool:
    """Postpone a first look that products have not paid for; return whether it is postponed.

    A look that finds no account of earlier processes changes nothing. It may take the share `overhead` of a solve, as
    every other step of tuning, and the share with the largest advance of products outside solves.
    """
    options = state.options
    if state.is_known or state.live_tuner is not None or options.overhead <= 0 or options.runs is not None:
        return False
    if state.is_noted is None:  # once: each solve begins with looks, and the file may have megabytes
        state.is_noted = is_noted(state, operand)
    if state.is_noted:
        return False
    is_of_solver = isinstance(operand, Operand) and operand.solver_memory is not None
    share = options.overhead * (1.0 if is_of_solver else 1.0 + _MAX_ADVANCE)
    solver_ns, due_ns = state.solver_ns or 0, COLD_LOOK_S / share * 1e9
    if not is_of_solver:
        due_ns = min(due_ns, tuning_look_ns(options, state.operation, state.n_dense_cols))
    certain_ns = state.expected.certain_ns(state.n_calls, state.product_ns) if state.expected is not None else 0.0
    if max(state.product_ns + solver_ns, certain_ns) >= due_ns:
        return False
    state.next_look_ns = due_ns - solver_ns
    return True


def is_noted(state: DispatchState, operand: Operand | Unfolding) -> bool:
    """Return whether earlier processes may have left an account of the problem; it loads no module."""
    options = state.options
    if not options.cache or options.cache_max_bytes < MAX_BYTES:
        return False
    if (folder := cache_folder(options)) is None:
        return True
    content = accounts_content(folder)
    return bool(content) and key_of(operand, state) in content  # without a file, a solve is spared the key: 0.6 ms


def cache_folder(options: Options) -> Path | None:
    """Return the cache folder of `options`, trusted or not; None where `cache.stores` must find it."""
    if options.cache_dir is not None or sys.platform != "linux":
        return options.cache_dir
    folder = Path(xdg_cache_home(), "autosparse")
    return folder if folder.is_absolute() else None


def key_of(operand: Operand | Unfolding, state: DispatchState) -> bytes:
    """Return the key of the state's problem in the file of accounts, from samples of the structure: microseconds."""
    options = state.options
    return account_key(
        operand.structure_sample(), state.operation, getattr(operand, "mode", 0), state.transposed,
        max(0, state.n_dense_cols - 1).bit_length(), state.dtype.name, options.threads or runtime_api.max_threads(),
        options.isa, options.storage, options.hybrid, options.compiler, options.vendor,
    )  # fmt: skip


def tuning_look_ns(options: Options, operation: str, n_vecs: int) -> float:
    """Return the product time (ns) that pays for the first tuning step, and for loading its modules where needed."""
    if options.runs is not None:
        return 0.0
    if "autosparse.tuning.setup" in sys.modules:
        from autosparse.dispatch.accounts import advance_share
        from autosparse.ops import OPS

        gain = OPS[operation].tuning.measured_gain(n_vecs)
        return FIRST_STEP_S / ((1.0 + advance_share(gain)) * options.overhead) * 1e9
    advance = FIRST_IMPORT_ADVANCE if operation == names.MATMUL and n_vecs == 1 else 0.0
    return FIRST_IMPORT_S / ((1.0 + advance) * options.overhead) * 1e9
