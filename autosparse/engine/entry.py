"""From Python straight to the default kernel, for products whose operands were looked at before.

Checking a product's operands, finding its problem and keeping its accounts takes some microseconds in Python, ten and
more after a product that has filled the caches; small products are not much longer. An entry is a builtin that has all
of it in one C structure (`_native/runtime/entry_python.h`) and serves while everything is as it was when it was made:
the operand's arrays (`Operand.rows` is the same object: nobody has been given them since), dtype, extents, options,
and the default kernel's turn. Whatever differs is answered with False, and Python looks.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from autosparse._native import runtime_api
from autosparse.operand import NativeRows, Operand

if TYPE_CHECKING:
    from autosparse.engine.slot import Slot

Run = Callable[[Any, Any, Any, bool], bool]
"""(B, out, options, transposed) -> whether out holds the product."""

_HEADER: Final = object.__basicsize__
_WORD: Final = ctypes.sizeof(ctypes.c_void_p)


class Entry:
    """The way into the default kernel for one slot: same operand, same width."""

    __slots__ = ("_state", "rows", "run")

    def __init__(self, slot: Slot, operand: Operand, rows: NativeRows, n_dims: int, n_vecs: int) -> None:
        assert _slot_offset is not None
        assert _make is not None
        assert rows.dtype is not None
        state = runtime_api.ffi.new("asp_entry *")
        address = runtime_api.ffi.cast("void *", id(operand) + _slot_offset)
        state.rows_slot = address
        for name, kept in (
            ("rows", rows), ("options", slot.options), ("array_type", np.ndarray), ("descr", rows.dtype),
            ("transposed", slot.transposed),
        ):  # fmt: skip
            setattr(state, name, runtime_api.ffi.cast("void *", id(kept)))
        state.header, state.n_dims, state.n_vecs = _HEADER, n_dims, n_vecs
        state.dtype, state.itype = rows.dtype_code, rows.index_code
        state.flags, state.n_threads = slot.flags, slot.threads
        state.n_major, state.n_minor = rows.n_major, rows.n_minor
        for name in ("indptr", "indices", "data"):
            setattr(state, name, runtime_api.ffi.cast("void **", getattr(rows, name)))
        self.rows, self._state = rows, state
        kept_alive = (state, rows, slot.options, rows.dtype)
        self.run: Run = _make(int(runtime_api.ffi.cast("uintptr_t", state)), kept_alive)

    def is_for(self, n_dims: int, n_vecs: int) -> bool:
        """Whether results of this shape are served."""
        return bool(self._state.n_dims == n_dims and self._state.n_vecs == n_vecs)

    def settle(self, slot: Slot) -> None:
        """Bring the accounts of its slot up to date, and stay open until it is time to look at tuning again."""
        state = self._state
        slot.n_calls += state.n_calls
        slot.product_ns += state.product_ns
        state.n_calls = state.product_ns = 0
        left_ns = slot.next_look_ns - slot.product_ns if slot.turn is None else 0
        state.limit_ns = int(min(max(left_ns, 0), 1 << 62))

    def close(self) -> None:
        """Serve nothing until `settle` is called again."""
        self._state.limit_ns = 0


def arm(operand: Operand, slot: Slot, *, n_dims: int, n_vecs: int) -> None:
    """After a product (k,) or (k, n_vecs) that Python has led to the default kernel: the next one may go directly."""
    rows = operand.rows
    if _make is None or rows is None or rows.dtype is not slot.dtype or not _is_live(rows):
        return
    entry = slot.entry
    if entry is None or entry.rows is not rows or not entry.is_for(n_dims, n_vecs):
        if entry is not None:
            entry.settle(slot)
            entry.close()
        entry = slot.entry = Entry(slot, operand, rows, n_dims, n_vecs)
        entry.settle(slot)
    operand.entry = entry.run


def _is_live(rows: NativeRows) -> bool:
    """Whether the addresses are read where the array objects keep them (else they are good for this product only)."""
    return all(isinstance(one, runtime_api.ffi.CData) for one in (rows.indptr, rows.indices, rows.data))


def _find_maker() -> Callable[[int, object], Run] | None:
    """The maker of entries; None where objects do not lie as C expects, or there is no Python in the runtime."""
    if not runtime_api.available or not hasattr(runtime_api.lib, "asp_entry_maker"):
        return None
    if sys.implementation.name != "cpython" or not getattr(sys, "_is_gil_enabled", lambda: True)():
        return None
    probes = (np.empty((3, 5), np.float32), np.empty((4, 7))[1:, ::-1], np.empty(6, np.int32))
    if _slot_offset is None or not all(map(_lies_as_expected, probes)):
        return None
    signature = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.py_object, ctypes.py_object)
    make: Callable[[int, object], Run] = signature(int(runtime_api.lib.asp_entry_maker()))
    return make


def _lies_as_expected(array: Any) -> bool:
    """Whether the fields of an array object are those of entry_python.h."""
    data, n_dims, dimensions, strides, base, descr, flags = (
        kind.from_address(id(array) + _HEADER + at * _WORD).value
        for at, kind in enumerate((ctypes.c_size_t, ctypes.c_int, *(ctypes.c_size_t,) * 4, ctypes.c_int))
    )
    shape = tuple((ctypes.c_ssize_t * array.ndim).from_address(dimensions)) if n_dims == array.ndim else ()
    steps = tuple((ctypes.c_ssize_t * array.ndim).from_address(strides)) if n_dims == array.ndim else ()
    return (
        (data, shape, steps) == (array.__array_interface__["data"][0], array.shape, array.strides)
        and base == (0 if array.base is None else id(array.base))
        and descr == id(array.dtype)
        and flags & 0x0501 == array.flags.num & 0x0501
    )


def _find_slot_offset() -> int | None:
    """Bytes from an Operand to its slot `rows`; None where it is not found."""
    if sys.implementation.name != "cpython":
        return None
    probe = Operand()
    found = None
    for mark in (NativeRows(0, 0), NativeRows(1, 1)):
        probe.rows = mark
        words = range(_HEADER, Operand.__basicsize__, _WORD)
        places = [at for at in words if ctypes.c_size_t.from_address(id(probe) + at).value == id(mark)]
        if len(places) != 1 or (found is not None and places[0] != found):
            return None
        found = places[0]
    return found


_slot_offset: Final = _find_slot_offset()
_make: Final = _find_maker()
