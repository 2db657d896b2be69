"""Layout of CPython's and NumPy's objects, and the builtins of the C runtime that read their fields.

Inspecting the operands of a small product takes microseconds in Python and nanoseconds in C. The layout of NumPy's
arrays is part of its ABI, and the offsets of slots are found at run time; both are verified on probe objects. If
anything differs (other interpreters, no GIL, a runtime built without Python's headers), there are no builtins, and
Python code is used.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable, Mapping
from typing import Any, Final

import numpy as np
from autosparse._native import runtime_api

HEADER: Final = object.__basicsize__
_WORD: Final = ctypes.sizeof(ctypes.c_void_p)
_FLAGS: Final = 0x0501  # NPY_ARRAY_C_CONTIGUOUS | ALIGNED | WRITEABLE


class _Mark:
    """Object that `slot_offsets` searches for in another object's memory."""


def slot_offsets(make: Callable[[], Any], names: tuple[str, ...]) -> Mapping[str, int] | None:
    """Return the offsets in bytes of these slots in an object created by `make`, or None unless each is found exactly
    once.
    """
    if sys.implementation.name != "cpython" or not getattr(sys, "_is_gil_enabled", lambda: True)():
        return None
    found, probe = {}, make()
    for name in names:
        places = set(range(HEADER, type(probe).__basicsize__, _WORD))
        for mark in (_Mark(), _Mark()):
            setattr(probe, name, mark)
            places &= {at for at in places if ctypes.c_size_t.from_address(id(probe) + at).value == id(mark)}
        if len(places) != 1:
            return None
        found[name] = places.pop()
    return found


def lies_as_expected(array: Any) -> bool:
    """Return whether the fields of an array object have the layout that entry_python.h assumes."""
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


def _arrays_are_known() -> bool:
    if sys.implementation.name != "cpython" or not runtime_api.available:
        return False
    probes = (np.empty((3, 5), np.float32), np.empty((4, 7))[1:, ::-1], np.empty(6, np.int32))
    has_gil = getattr(sys, "_is_gil_enabled", lambda: True)()
    return bool(has_gil and hasattr(runtime_api.lib, "asp_look_maker") and all(map(lies_as_expected, probes)))


arrays_are_known: Final = _arrays_are_known()
"""True if the runtime's builtins can read array objects."""

Factory = Callable[[Any, object], Any]


def maker(name: str) -> Factory | None:
    """Return the C function of two objects whose address the runtime's function `name` returns, or None if
    unavailable.
    """
    if not arrays_are_known or not hasattr(runtime_api.lib, name):
        return None
    signature = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.py_object, ctypes.py_object)
    made: Factory = signature(int(getattr(runtime_api.lib, name)()))
    return made


def address_of(state: Any) -> int:
    """Return the address of a cffi structure."""
    return int(runtime_api.ffi.cast("uintptr_t", state))


def _builtin(name: str) -> Any:
    """Return the builtin of small_product_api.h that `name` creates for NumPy's array types, or None if unavailable."""
    make = maker(name)
    if make is None:
        return None
    cast, state = runtime_api.ffi.cast, runtime_api.ffi.new("asp_array_types *")
    kept = [
        [np.dtype(one) for one in codes] for codes in (runtime_api.DTYPE_CODES, runtime_api.INDEX_CODES)
    ]  # in the order of the codes
    state.header, state.array_type = HEADER, cast("void *", id(np.ndarray))
    state.values, state.indices = ([cast("void *", id(one)) for one in part] for part in kept)
    return make(address_of(state), (state, kept))


look: Final = _builtin("asp_look_maker")
"""Builtin that validates a CSR matrix; None: unavailable.

Called as ``look([indptr, indices, data], n_rows, n_cols, checked)``. Returns dtype code + 4 * index code, or a
negative number if Python code must inspect the arrays.
"""
small_product: Final = _builtin("asp_small_product_maker")
"""Builtin that computes a small product; None: unavailable.

Called as ``few([indptr, indices, data], n_rows, n_cols, checked, B, out, transposed, flags, most)``. Returns the time
in ns, or a negative number if nothing was computed.
"""
compile_sweep: Final = _builtin("asp_sweep_compiler_maker")
"""Builtin ``compile_sweep(steps, n_threads)`` that returns (run, bind) of a sweep (`linalg.sweeps`), or None if the
steps do not fit each other; None: unavailable."""
references: Final = _builtin("asp_references_maker")
"""Builtin ``references(list)`` that counts the references to its members and to their base arrays; None: unavailable.
"""
