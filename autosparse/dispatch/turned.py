"""Rows of Mᵀ, from which the default kernel computes Mᵀ @ B once such products have paid for making them.

The default kernel for Mᵀ @ B adds every entry to a row of the result, on one output per thread; these outputs are
summed at the end. From rows of Mᵀ it writes each row once, 1.5 to 2 times as fast. Making the rows takes as long as
about ten products. They are made only of arrays that no other code can write, and are dropped once an array is
exported. They are not made where products Mᵀ @ B take no longer than products M @ B, which the default kernel computes
from rows.
"""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any, Final

from autosparse._native import memory, runtime_api
from autosparse.config import get_options
from autosparse.operands.csr import DATA, INDICES, INDPTR

if TYPE_CHECKING:
    from autosparse._native._extension import FastCall
    from autosparse.operands.csr import Operand
    from autosparse.operands.native_rows import NativeRows

PRICE_NS: Final = 15
"""Product time in ns per stored entry after which the rows are made, about twice the cost of making them."""
TRIALS: Final = 16
"""Number of products by the rows of Mᵀ before their time is compared with that of earlier products.

The first ones run before caches and threads are warm.
"""
FEW: Final = 8
"""Minimum number of products M @ B whose mean time says how fast products by rows are."""
MAX_DROPS: Final = 4
"""Maximum number of times that the rows are made anew, because arrays are exported or because the rows were slower.

A product by the rows can be slower by chance, if the pool runs it on one thread for some calls.
"""
ONE_THREAD_NS: Final = 6_500
"""Time in ns of a product by the rows below which the pool used one thread; it shares estimates of 7 us and more."""

_UNTRIED: Final = (0, 0, 0)
_lib, _ffi = runtime_api.lib, runtime_api.ffi


class TurnedRows:
    """Rows of Mᵀ of one operand at one moment, in arrays of their own."""

    __slots__ = ("_n_invalidated", "_pointers", "_rows", "_table", "arrays", "fast_paths", "n_bytes", "values_version")

    values_version: int
    """Version of the operand's values when a fast path was opened; the fast path compares it."""

    def __init__(self, operand: Operand, rows: NativeRows, threads: int) -> None:
        """Transpose the rows. Raises MemoryError if memory is short."""
        self._rows, self._n_invalidated = rows, operand.n_invalidated  # before the arrays are read: later writes count
        arrays = operand.peek(INDPTR), operand.peek(INDICES), operand.peek(DATA)
        made = runtime_api.transpose(arrays, (rows.n_major, rows.n_minor), threads=threads, room=memory.empty_output)
        self.arrays = tuple(array for array in made if array is not None)
        self._pointers = tuple(map(_ffi.from_buffer, self.arrays))
        self._table = _ffi.new("void *[]", self._pointers)
        self.fast_paths: Any = weakref.WeakSet()  # fast paths that read the rows
        self.n_bytes = sum(array.nbytes for array in self.arrays)

    def are_of(self, operand: Operand) -> bool:
        """Return whether the rows are current: no array was exported since, and no other object can reach one."""
        return self._rows is operand.rows and self._n_invalidated == operand.n_invalidated and operand.is_alone

    def may_serve(self, operand: Operand) -> bool:
        """Return whether a fast path can compute by the rows, which hold what the operand holds now."""
        operand.refresh()
        self.values_version = operand.values_version  # the values of these rows, unless the next line finds a write
        return operand.watch is not None and self.are_of(operand)

    def enter(self, call: FastCall, operand: Operand | None) -> list[object]:
        """Write the rows into `call`; return the objects that must live as long as it.

        `operand` guards the rows (see `may_serve`). Without it they are read whatever was written since.
        """
        first = int(_ffi.cast("uintptr_t", self._table))
        call.is_turned, call.n_major, call.n_minor = 1, self._rows.n_minor, self._rows.n_major
        call.indptr, call.indices, call.data = (first + at * _ffi.sizeof("void *") for at in range(3))
        if operand is None:
            fixed = (int(_ffi.cast("uintptr_t", pointer)) for pointer in self._pointers)
            call.fixed_indptr, call.fixed_indices, call.fixed_data = fixed
        else:
            call.guard(operand.watch, self, operand.structure_version)
        return [self]

    def retire(self) -> None:
        """Close the fast paths that read the rows."""
        for fast_path in list(self.fast_paths):
            fast_path.retire()

    def multiply(self, at: tuple[Any, ...], threads: int) -> int:
        """Compute C = Mᵀ @ B and return the kernel's code, 0 for success.

        `at` holds address and row step of B, of C, and the number of columns.
        """
        rows = self._rows
        code: int = _lib.asp_csr_mm(
            rows.dtype_code, rows.index_code, rows.n_minor, rows.n_major, *self._pointers, *at, threads, 0
        )
        return code


class Turning:
    """Account of the time of products Mᵀ @ B of one operand, and the rows of Mᵀ once that time exceeds their price."""

    __slots__ = ("_before", "_n_drops", "_spent_ns", "_times", "is_serving", "made")

    def __init__(self) -> None:
        self.made: TurnedRows | None = None
        self.is_serving = False  # whether the rows computed the last product
        self._n_drops = self._spent_ns = 0
        self._times: dict[int, list[int]] = {}  # columns -> least ns without and with rows of Mᵀ, products with them
        self._before: dict[int, tuple[int, int]] = {}  # columns -> number and ns of the products without them

    @property
    def n_bytes(self) -> int:
        """Bytes of the rows of Mᵀ."""
        return 0 if self.made is None else self.made.n_bytes

    def rows(self, operand: Operand, n_vecs: int) -> TurnedRows | None:
        """Return the rows that compute the next product; None where there are none, or where they were no faster."""
        made, self.is_serving = self.made, False
        if made is None:
            return None
        if not made.are_of(operand):
            self._drop()
            self._spent_ns = 0
            self._n_drops += 1
            return None
        self.is_serving = _is_chosen(*self._times.get(n_vecs, _UNTRIED))
        return made if self.is_serving else None

    def _drop(self) -> None:
        made, self.made, self.is_serving = self.made, None, False
        if made is not None:
            made.retire()

    def settled(self, n_vecs: int) -> TurnedRows | None:
        """Return the rows that fast paths of this width may read: those that have computed `TRIALS` products."""
        times = self._times.get(n_vecs, _UNTRIED)
        return self.made if times[2] >= TRIALS and _is_chosen(*times) else None

    def arrays(self, operand: Operand) -> tuple[Any, ...] | None:
        """Return indptr, indices and data of the rows that compute products with a vector; None if none do."""
        made = self.settled(1)
        return made.arrays if made is not None and made.are_of(operand) else None

    def is_trying(self, n_vecs: int) -> bool:
        """Return whether the rows were made and must compute products of this width before they are compared."""
        return self.made is not None and self._times.get(n_vecs, _UNTRIED)[2] < TRIALS

    def is_open(self, operand: Operand, n_vecs: int) -> bool:
        """Return whether products must be timed by `count`, because the rows may be made or were not compared yet."""
        if self.made is None:
            return self._n_drops < MAX_DROPS and operand.is_alone
        return self.is_trying(n_vecs)

    def count(self, operand: Operand, n_vecs: int, took_ns: int) -> None:
        """Count a product by the default kernel, and make the rows once products have taken enough time."""
        by_rows = self.is_serving
        times = self._times.setdefault(n_vecs, [0, 0, 0])
        times[by_rows] = least_ns = min(times[by_rows] or took_ns, took_ns)
        times[2] += by_rows
        if times[2] == TRIALS == sum(one[2] for one in self._times.values()) and not _is_chosen(*times):
            self._drop()  # slower for the only width in use
            self._spent_ns, self._n_drops = 0, self._n_drops + 1 if _may_win_later(*times) else MAX_DROPS
            self._times.clear()
            return
        self._spent_ns += least_ns  # the least time: first products of a process take longer
        n_before, before_ns = self._before.get(n_vecs, (0, 0))
        self._before[n_vecs] = n_before, before_ns = n_before + (not by_rows), before_ns + took_ns * (not by_rows)
        rows = operand.rows
        is_paid = self.made is None and self._spent_ns >= (PRICE_NS << self._n_drops) * operand.nnz
        if is_paid and self._n_drops < MAX_DROPS and rows is not None and operand.is_alone:
            # Means of both: a least time would be compared with the first products of a process.
            if before_ns / max(1, n_before) <= _by_rows_of_matrix_ns(operand, n_vecs):
                self._n_drops = MAX_DROPS  # as fast as products by rows already are
                return
            try:
                self.made = TurnedRows(operand, rows, get_options().threads or runtime_api.max_threads())
            except MemoryError:
                self._n_drops = MAX_DROPS


def _by_rows_of_matrix_ns(operand: Operand, n_vecs: int) -> float:
    """Return the mean ns of products M @ B of this width by the default kernel, from rows too; 0 if there were few.

    Where M is a copy, products with the matrix that it was copied from count as well: SciPy's operators multiply by A
    and by ``A.T.conj()``.
    """
    found = _mean_ns(operand, n_vecs)
    source = operand.source() if operand.source is not None and not found else None
    return found if source is None else _mean_ns(source, n_vecs)


def _mean_ns(operand: Operand, n_vecs: int) -> float:
    dispatcher = operand.dispatcher  # once: another thread may drop it
    state = dispatcher.hot.get((n_vecs, False)) if dispatcher is not None else None
    if state is None or (n_untuned := state.n_calls - state.n_tuned) < FEW:
        return 0.0
    return float((state.product_ns - state.tuned_ns) / n_untuned)


def _may_win_later(before_ns: int, by_rows_ns: int, _n_trials: int) -> bool:
    """Return whether rows that were slower may have been so because the pool ran their products on one thread.

    Until the rows serve or are given up, products go through Python, which takes 3 to 5 us longer. Several threads are
    assumed to reach half of their gain.
    """
    threads = get_options().threads or runtime_api.max_threads()
    return by_rows_ns >= ONE_THREAD_NS and 2 * by_rows_ns < (1 + threads) * before_ns


def _is_chosen(before_ns: int, by_rows_ns: int, n_trials: int) -> bool:
    """Return whether the rows compute the next product of a width, given its least times and the number of trials."""
    return n_trials < TRIALS or not before_ns or by_rows_ns < before_ns
