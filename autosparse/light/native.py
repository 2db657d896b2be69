"""Products of light matrices by the C runtime, which is loaded without the rest of the library.

Loading the runtime takes 1.5 ms, a fifth of the time that the library takes.
"""

from __future__ import annotations

import functools
import importlib
import math
from time import perf_counter_ns
from typing import Any, Final

import numpy as np
import scipy.sparse as sps

from autosparse import forking, light, scalar
from autosparse._native import connected_extension, loaded_runtime
from autosparse.light import Rows
from autosparse.light.adoption import adopt, look_up, own_part

_VALUE_CODES: Final = {np.dtype(name): code for name, code in scalar.VALUE_CODES.items()}
_INDEX_CODES: Final = {np.dtype(name): code for name, code in scalar.INDEX_CODES.items()}
_PRODUCT_CODES: Final = {np.dtype(name): code for name, code in scalar.PRODUCT_CODES.items()}
_MAX_COLUMNS: Final = 1 << 22
"""Maximum number of columns of a product of two sparse matrices: each has an accumulator."""
_SUMS: Final = {"_plus_": 0, "_minus_": 1, "_elmul_": 2, "+": 3, "-": 4}
"""Codes of `asp_merge_rows` by the names of SciPy's loops; by signs for results with the entries that are 0."""
MAX_SUM_BYTES: Final = 16 << 20
"""Maximum size of the work space of a sum, which holds the entries of both matrices.

With 24 MB, more than half of a last-level cache, a sum takes 3.1 ms, and SciPy's loop 1.9 to 4.0 ms.
"""
_POOL_BYTES: Final = 1 << 25
"""Maximum number of bytes of freed results that are kept for later ones, until the library is loaded."""
_RECYCLED_FROM_BYTES: Final = 1 << 17  # as `memory.RECYCLED_FROM_BYTES`, which is not loaded yet
_NO_LIMIT: Final = 1 << 62  # ns
_CONTIGUOUS_ALIGNED: Final = 0x101  # NPY_ARRAY_C_CONTIGUOUS | NPY_ARRAY_ALIGNED


_lib, _ffi = loaded_runtime()
if _lib is not None:
    light.n_threads = _lib.asp_max_threads()


@functools.cache
def _allocator() -> Any:
    """Return the extension module's `empty`, which reuses pages of freed results; None without that module."""
    with forking.loading():
        extension, _ = connected_extension(_lib, _ffi)
    if extension is not None and not light.is_complete:
        _lib.asp_output_limit(_POOL_BYTES)
    return None if extension is None else extension.empty


def empty(shape: tuple[int, ...], dtype: np.dtype[Any], job: Any = None, part: int = 0) -> Any:
    """Return an uninitialised array, which takes over a part of a sparse product's `job` if it is large."""
    is_large = math.prod(shape) * dtype.itemsize >= _RECYCLED_FROM_BYTES
    empty = _allocator() if is_large else None
    if empty is None:
        return np.empty(shape, dtype)
    if job is not None:
        _lib.asp_spgemm_hand_over(job, part)
    return empty(shape, dtype, False)


def product(
    rows: Rows, arrays: Any, B: Any, *, transposed: bool, out: Any = None
) -> Any:  # Any: arrays of the user, and None
    """Return M @ B, or Mᵀ @ B if `transposed`, for M's sound `arrays` and an array B of its dtype.

    `out`: array in C order, apart from B, for the result. Return None where no kernel takes the operands.
    """
    indptr, indices, data = arrays
    dtype_code, index_code = _VALUE_CODES.get(data.dtype), _INDEX_CODES.get(indices.dtype)
    if _lib is None or dtype_code is None or index_code is None or indptr.dtype != indices.dtype or not B.size:
        return None
    if indptr.flags.num & indices.flags.num & data.flags.num & _CONTIGUOUS_ALIGNED != _CONTIGUOUS_ALIGNED:
        return None
    if B.flags.num & _CONTIGUOUS_ALIGNED != _CONTIGUOUS_ALIGNED:
        B = np.array(B, order="C")
    C = empty((rows.n_minor if transposed else rows.n_major, *B.shape[1:]), B.dtype) if out is None else out
    n_vecs, at = B.size // B.shape[0], _ffi.from_buffer
    status = (_lib.asp_csr_t_mm if transposed else _lib.asp_csr_mm)(
        dtype_code, index_code, rows.n_major, rows.n_minor, at(indptr), at(indices), at(data), at(B), n_vecs, at(C),
        n_vecs, n_vecs, _lib.asp_max_threads(), 0,
    )  # fmt: skip
    return None if status else C


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
    fields = importlib.import_module("autosparse._native.python_objects").OperandFields()
    fields._arrays, fields.rows = rows.arrays, True  # in this order: `rows` stores the type of the values
    return fields


def _call_of(rows: Rows, arrays: Any, fields: Any, options: Any, *, transposed: bool) -> Any:
    """Return a new call of the default kernel for vectors from C; None where none takes the arrays."""
    dtype_code, index_code = _VALUE_CODES.get(arrays[2].dtype), _INDEX_CODES.get(arrays[1].dtype)
    flags = arrays[0].flags.num & arrays[1].flags.num & arrays[2].flags.num
    if flags & _CONTIGUOUS_ALIGNED != _CONTIGUOUS_ALIGNED or arrays[0].dtype != arrays[1].dtype:
        return None
    make = importlib.import_module("autosparse._native.python_objects").FastCall
    if make is None or dtype_code is None or index_code is None:
        return None
    table = _ffi.new("void *[]", [_ffi.from_buffer(array) for array in arrays])
    call = make(fields, fields.rows, options, transposed, arrays[2].dtype, (table, arrays))
    call.n_dims = call.n_vecs = 1
    call.dtype, call.itype, call.n_major, call.n_minor = dtype_code, index_code, rows.n_major, rows.n_minor
    at = int(_ffi.cast("uintptr_t", table))
    call.indptr, call.indices, call.data = (at + place * _ffi.sizeof("void *") for place in range(3))
    return call


def _sparse_rows(A: Rows, B: Rows) -> list[Any] | None:
    """Return new (indptr, indices, data) of A @ B, with SciPy's bits; None where no kernel takes sound A and B.

    Also None for a product without entries, whose arrays SciPy makes.
    """
    ours, theirs = A.sound(), B.sound()
    if _lib is None or ours is None or theirs is None:  # another thread has replaced arrays
        return None
    left, right = (*ours[0], ours[1]), (*theirs[0], theirs[1])
    is_plain = left[0].dtype == left[1].dtype and B.n_minor <= _MAX_COLUMNS
    for one, other in zip(left, right, strict=True):
        is_aligned = one.flags.num & other.flags.num & _CONTIGUOUS_ALIGNED == _CONTIGUOUS_ALIGNED
        is_plain = is_plain and is_aligned and one.dtype == other.dtype
    code, index_code = _PRODUCT_CODES.get(left[2].dtype), _INDEX_CODES.get(left[1].dtype)
    if code is None or index_code is None or not is_plain:
        return None
    at, n_entries = _ffi.from_buffer, _ffi.new(scalar.WIDE_INDEX.pointer)
    extents = A.n_major, B.n_major, B.n_minor
    job = _lib.asp_spgemm_begin(code, index_code, extents, *map(at, left), *map(at, right), 0, 0, n_entries)
    if job == _ffi.NULL:
        return None
    if not 0 < n_entries[0] <= light.INT32_MAX:
        _lib.asp_spgemm_drop(job)
        return None
    try:
        n = n_entries[0]
        made = [empty((A.n_major + 1,), left[0].dtype)]
        made += [empty((n,), array.dtype, job, part) for part, array in enumerate(left[1:])]
    except BaseException:
        _lib.asp_spgemm_drop(job)
        raise
    return None if _lib.asp_spgemm_finish(job, index_code, *map(at, made)) else made


def sparse_product(A: Any, rows: Rows, B: Any) -> Any:
    """Return A @ B for a light matrix A with sound `rows` and a sparse matrix B; None where SciPy should multiply."""
    kind = type(A)
    is_kept = isinstance(A, sps.sparray) or rows.arrays[1].dtype == light.INT32  # matrix classes may narrow indices
    if A._twin._twin is not kind or not is_kept or rows.arrays[2].dtype != B.dtype:
        return None
    if type(other := B if B.format == A.format else B.asformat(A.format)) is not kind:
        adopted: Any = object.__new__(kind)
        other = adopted if adopt(adopted, light.arrays_of(adopted, other), copy=False) else None
    theirs = None if other is None else light.rows_of(other)
    if theirs is None:
        return None
    left, right = (theirs, rows) if A._transposed else (rows, theirs)
    return own_part(A, (A._shape[0], B.shape[1]), _sparse_rows(left, right))


def turned(rows: Rows) -> tuple[Any, ...] | None:
    """Return new (indptr, indices, data) of the transpose of light rows; None where no loop takes them."""
    found, at = rows.sound(), _ffi.from_buffer
    if _lib is None or found is None:
        return None
    (indptr, indices), data = found
    index_code = _INDEX_CODES.get(indices.dtype) if indptr.dtype == indices.dtype else None
    flags = indptr.flags.num & indices.flags.num & data.flags.num
    if index_code is None or data.dtype not in _VALUE_CODES or flags & _CONTIGUOUS_ALIGNED != _CONTIGUOUS_ALIGNED:
        return None
    nnz, extents = indptr.item(-1), (rows.n_major, rows.n_minor)
    made = empty((rows.n_minor + 1,), indptr.dtype), empty((nnz,), indices.dtype), empty((nnz,), data.dtype)
    places = (*map(at, (indptr, indices, data)), *map(at, made), _ffi.NULL, _lib.asp_max_threads())
    return None if _lib.asp_csr_transpose(data.itemsize, index_code, *extents, *places) else made


def sum_of(name: str, pair: Any, empty: Any, threads: int) -> tuple[Any, ...] | None:
    """Return new (indptr, indices, data) of the sum, difference or elementwise product of a sound pair of such arrays.

    `name`: a key of `_SUMS`; `empty` allocates; 0 threads mean all. Return None where SciPy should compute the result:
    in other operations and dtypes, of large matrices, where indices are not in canonical format, and on one thread, on
    which SciPy's loop takes 0.8 times as long.
    """
    (left, right), operation = pair, _SUMS.get(name)
    dtype, index = left[2].dtype, left[1].dtype
    code, index_code, n_both = _VALUE_CODES.get(dtype), _INDEX_CODES.get(index), left[0].item(-1) + right[0].item(-1)
    is_complex = dtype.kind == "c"  # C multiplies complex infinities differently
    if _lib is None or code is None or index_code is None or operation is None or (is_complex and name == "_elmul_"):
        return None
    are_plain = all(array.flags.num & _CONTIGUOUS_ALIGNED == _CONTIGUOUS_ALIGNED for one in pair for array in one)
    n_bytes = n_both * (dtype.itemsize + index.itemsize)
    is_alone = (threads or _lib.asp_max_threads()) == 1
    if not are_plain or (name.startswith("_") and (is_alone or n_bytes > MAX_SUM_BYTES)):
        return None
    indptr, loose, at = np.empty_like(left[0]), (empty((n_both,), index), empty((n_both,), dtype)), _ffi.from_buffer
    addresses = [[int(_ffi.cast("uintptr_t", at(array))) for array in one] for one in pair]
    n_rows, to, work = indptr.size - 1, at(indptr), tuple(map(at, loose))
    nnz = _lib.asp_merge_rows(code, index_code, operation, n_rows, *addresses, to, *work, threads)
    if nnz < 0:  # not canonical
        return None
    own, starts = (empty((nnz,), index), empty((nnz,), dtype)), (at(left[0]), at(right[0]))
    _lib.asp_pack_merged(dtype.itemsize, index_code, n_rows, *starts, *work, to, *map(at, own), threads)
    return indptr, *own
