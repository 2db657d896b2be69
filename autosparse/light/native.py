"""Products of light matrices by the C runtime, which is loaded without the rest of the library.

Loading the runtime takes 1.5 ms, an eighth of the time that the library takes.
"""

from __future__ import annotations

import contextlib
import importlib
import math
import sys
from time import perf_counter_ns
from typing import Any, Final

import numpy as np

from autosparse import forking, light
from autosparse._native import extension_at_once
from autosparse.light import Rows
from autosparse.light.adoption import look_up

_POOL_BYTES: Final = 1 << 25
"""Maximum number of bytes of freed results that are kept for later ones, until the library is loaded."""
_RECYCLED_FROM_BYTES: Final = 1 << 17  # as `memory.RECYCLED_FROM_BYTES`, which is not loaded yet
_NO_LIMIT: Final = 1 << 62  # ns
_INDEX_CODE: Final = 8
"""Factor of the code of index arrays in the results of the extension module's `look`."""
CONTIGUOUS_ALIGNED: Final = 0x101  # NPY_ARRAY_C_CONTIGUOUS | NPY_ARRAY_ALIGNED

_extension: Any = None  # connected with the runtime by the library, or here
if light.is_complete:
    _extension = importlib.import_module("autosparse._native.runtime_api").extension
else:
    _extension, light.n_threads = extension_at_once(_POOL_BYTES)


def is_recycled(shape: tuple[int, ...], dtype: np.dtype[Any]) -> bool:
    """Return whether `empty` takes the memory of an array from that of freed results."""
    return _extension is not None and math.prod(shape) * dtype.itemsize >= _RECYCLED_FROM_BYTES


def empty(shape: tuple[int, ...], dtype: np.dtype[Any]) -> Any:
    """Return an uninitialised array, in memory of freed results if it is large."""
    return _extension.empty(shape, dtype, False) if is_recycled(shape, dtype) else np.empty(shape, dtype)


def _of_sparse_results(name: str) -> Any:
    """Return the function `name` of `sparse_results`, which is imported by its first call; that returns None without
    cffi's module.
    """

    def first(*given: Any) -> Any:
        if sys.is_finalizing():
            return None
        with contextlib.suppress(ImportError, OSError), forking.loading():
            globals()[name] = getattr(importlib.import_module("autosparse.light.sparse_results"), name)
            return globals()[name](*given)
        return None

    return first


sparse_product, turned, sum_of = map(_of_sparse_results, ("sparse_product", "turned", "sum_of"))


def product(
    rows: Rows, arrays: Any, B: Any, *, transposed: bool, out: Any = None
) -> Any:  # Any: arrays of the user, and None
    """Return M @ B, or Mᵀ @ B if `transposed`, for M's sound `arrays` and an array B of its dtype.

    `out`: array in C order, apart from B, for the result. Return None where no kernel takes the operands.
    """
    if _extension is None or not B.size:
        return None
    if B.flags.num & CONTIGUOUS_ALIGNED != CONTIGUOUS_ALIGNED:
        B = np.array(B, order="C")
    C = empty((rows.n_minor if transposed else rows.n_major, *B.shape[1:]), B.dtype) if out is None else out
    return C if _extension.product(arrays, rows.n_major, rows.n_minor, True, B, C, transposed) else None


def product_into(A: Any, B: Any, out: Any) -> bool:
    """Write A @ B to `out` for a light matrix A, where the library need not be loaded; return whether that was done.

    B and `out` are arrays in C order that overlap no other operand.
    """
    rows = light.rows_of(A)
    if rows is None or not light.may_be_light():
        return False
    transposed = A._transposed
    if rows.products_ns >= light.LOOKUP_NS and rows.looked_up != light.n_threads:
        look_up(rows, B, transposed=transposed)
    start_ns, found = perf_counter_ns(), rows.sound()
    if found is None or not found[1].dtype == B.dtype == out.dtype:
        return False
    if product(rows, (*found[0], found[1]), B, transposed=transposed, out=out) is None:
        return False
    light.count(start_ns, share=light.LOOP_SHARE, is_product=True, dense=rows)
    return True


def fast_call(A: Any, x: Any, out: Any, options: Any) -> tuple[Any, ...] | None:  # Any: as in `product`
    """Return the function that may write A @ x to `out` without Python, and its arguments; None if there is none.

    `A` is a light matrix, x and out are vectors. The function serves until an index array is exported or another array
    is set, and until the library is due. Its products count when this is called again.
    """
    rows = light.rows_of(A)
    if rows is None or rows.is_exported or x.ndim != 1 or not light.may_be_light():
        return None
    if rows.products_ns >= light.LOOKUP_NS and rows.looked_up != light.n_threads:  # `product_into` looks
        return None
    found = rows.sound()
    if found is None or found[1].dtype != x.dtype:
        return None
    with light.FINISHING:  # one for all threads, and none once the operand exports the arrays
        if rows.native is None and not light.is_complete:
            rows.native = _comparable(rows), {}
        native = rows.native
    if native is None or rows.is_exported:  # read after `native` was set: another thread reads it after its export
        return None
    (fields, calls), transposed = native, A._transposed
    call = calls.get(transposed) or _call_of(rows, (*found[0], found[1]), fields, options, transposed=transposed)
    if call is None:
        return None
    calls[transposed] = call
    n_calls, took_ns = call.take()
    light._spent_ns += took_ns // light.LOOP_SHARE
    light._products_ns += took_ns
    rows.products_ns, rows.n_products = rows.products_ns + took_ns, rows.n_products + n_calls
    call.limit_ns = min(max(0, light.LOADING_NS - light._spent_ns) * light.LOOP_SHARE, _NO_LIMIT)
    return call.run, fields, x, out, options, transposed


def _comparable(rows: Rows) -> Any:
    """Return an object whose arrays a call from C compares with those that it was made for."""
    fields = _extension.OperandFields()
    fields._arrays, fields.rows = rows.arrays, True  # in this order: `rows` stores the type of the values
    return fields


def _call_of(rows: Rows, arrays: Any, fields: Any, options: Any, *, transposed: bool) -> Any:
    """Return a new call of the default kernel for vectors from C; None where none takes the arrays."""
    found = _extension.look(list(arrays), rows.n_major, rows.n_minor, True)
    index_code, dtype_code = divmod(found, _INDEX_CODE)
    if found < 0 or arrays[2].dtype.char not in light.KERNEL_TYPES:
        return None
    at = _extension.address_of
    table = np.array([at(array) for array in arrays], np.uintp)
    call = _extension.FastCall(fields, fields.rows, options, transposed, arrays[2].dtype, (table, arrays))
    call.n_dims = call.n_vecs = 1
    call.dtype, call.itype, call.n_major, call.n_minor = dtype_code, index_code, rows.n_major, rows.n_minor
    call.indptr, call.indices, call.data = (at(table) + place * table.itemsize for place in range(3))
    return call
