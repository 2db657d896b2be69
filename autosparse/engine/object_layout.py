"""Where C finds the fields of Python objects that an entry compares (`engine.entry`): tried out on probes at import.

Where something is not found as expected, there are no entries: on other interpreters, without a GIL, without Python's
headers at build time.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable, Mapping
from typing import Any, Final

import numpy as np

from autosparse import guard
from autosparse._native import runtime_api
from autosparse.operand import Operand

HEADER: Final = object.__basicsize__
GUARDED_SLOTS: Final = (
    "_touch_values", "_clean_values", "_touch_structure", "_clean_structure", "structure_version", "values_version",
)  # fmt: skip
"""Slots of an Operand in the order of `asp_entry.slots`."""
_WORD: Final = ctypes.sizeof(ctypes.c_void_p)
_FLAGS: Final = 0x0501  # NPY_ARRAY_C_CONTIGUOUS | ALIGNED | WRITEABLE

Make = Callable[[int, object], Callable[..., bool]]


class _Mark:
    """What is looked for in an object's memory."""


def slot_offsets(names: tuple[str, ...]) -> Mapping[str, int] | None:
    """Bytes from an Operand to these slots of it; None where one is not found, or not in one place."""
    if sys.implementation.name != "cpython":
        return None
    found = {}
    for name in names:
        probe, places = Operand(), set(range(HEADER, Operand.__basicsize__, _WORD))
        for mark in (_Mark(), _Mark()):
            setattr(probe, name, mark)
            places &= {at for at in places if ctypes.c_size_t.from_address(id(probe) + at).value == id(mark)}
        if len(places) != 1:
            return None
        found[name] = places.pop()
    return found


def lies_as_expected(array: Any) -> bool:
    """Whether the fields of an array object are those of entry_python.h."""
    data, n_dims, dimensions, strides, base, descr, flags = (
        kind.from_address(id(array) + HEADER + at * _WORD).value
        for at, kind in enumerate((ctypes.c_size_t, ctypes.c_int, *(ctypes.c_size_t,) * 4, ctypes.c_int))
    )
    if n_dims != array.ndim:
        return False
    words = ctypes.c_ssize_t * array.ndim
    return (
        data == array.__array_interface__["data"][0]
        and tuple(words.from_address(dimensions)) == array.shape
        and tuple(words.from_address(strides)) == array.strides
        and base == (0 if array.base is None else id(array.base))
        and descr == id(array.dtype)
        and flags & _FLAGS == array.flags.num & _FLAGS
    )


def _find_maker() -> Make | None:
    if not OFFSETS or not runtime_api.available or not hasattr(runtime_api.lib, "asp_entry_maker"):
        return None
    probes = (np.empty((3, 5), np.float32), np.empty((4, 7))[1:, ::-1], np.empty(6, np.int32))
    if not getattr(sys, "_is_gil_enabled", lambda: True)() or not all(map(lies_as_expected, probes)):
        return None
    signature = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.py_object, ctypes.py_object)
    made: Make = signature(int(runtime_api.lib.asp_entry_maker()))
    return made


def _find_references_beside() -> int | None:
    """What `guard.reference_total` counts of each array beyond the references there are; None where that varies."""
    if make is None or guard.calibrated_counts() is None:
        return None
    seen = set()
    for n in (1, 2, 3, 3, 2, 1):
        arrays = tuple(np.empty(2) for _ in range(n))
        state = runtime_api.ffi.new("asp_entry *")
        state.guarded = [runtime_api.ffi.cast("void *", address) for address in map(id, arrays)]
        state.n_guarded = n
        more, rest = divmod(guard.reference_total(arrays) - runtime_api.lib.asp_entry_references(state), n)
        seen.add(None if rest else more)
    return seen.pop() if len(seen) == 1 else None


OFFSETS: Final[Mapping[str, int]] = slot_offsets(("rows", *GUARDED_SLOTS)) or {}
"""Bytes from an Operand to its slots; empty where they were not found."""
make: Final = _find_maker()
"""(address of an asp_entry, what to keep alive) -> the builtin; None where there can be no entries."""
references_beside: Final = _find_references_beside()
"""None: packed copies cannot be guarded from C."""
