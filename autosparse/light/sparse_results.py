"""Sparse results that the C runtime computes on all threads: products, sums, transposes and copies of selected rows.

Each thread copies the selected rows that it multiplies in the next product. On one thread, SciPy's loops take as long,
but half of the result, and of the freed result before it, then lies in the wrong core's cache. The module imports
cffi's module of the runtime, in 0.6 ms.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np
import scipy.sparse as sps
from numpy.typing import NDArray

from autosparse import light, scalar
from autosparse._native import loaded_runtime
from autosparse.light import INT64, Rows
from autosparse.light.adoption import adopt, own_part
from autosparse.light.native import CONTIGUOUS_ALIGNED, empty, is_recycled

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
_OUT_OF_RANGE: Final = -1  # result of asp_count_selected for row numbers beyond the matrix
_lib, _ffi = loaded_runtime()


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
        is_aligned = one.flags.num & other.flags.num & CONTIGUOUS_ALIGNED == CONTIGUOUS_ALIGNED
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
        made += [_taken(job, part, (n,), array.dtype) for part, array in enumerate(left[1:])]
    except BaseException:
        _lib.asp_spgemm_drop(job)
        raise
    return None if _lib.asp_spgemm_finish(job, index_code, *map(at, made)) else made


def _taken(job: Any, part: int, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Any:
    """Return an uninitialised array, which takes over a part of a sparse product's `job` if it is large."""
    if is_recycled(shape, dtype):
        _lib.asp_spgemm_hand_over(job, part)
    return empty(shape, dtype)


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
    if index_code is None or data.dtype not in _VALUE_CODES or flags & CONTIGUOUS_ALIGNED != CONTIGUOUS_ALIGNED:
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
    are_plain = all(array.flags.num & CONTIGUOUS_ALIGNED == CONTIGUOUS_ALIGNED for one in pair for array in one)
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


def takes(arrays: tuple[NDArray[Any], NDArray[Any], NDArray[Any]]) -> bool:
    """Return whether `copied` accepts (indptr, indices, data), whose index arrays have one dtype."""
    indptr, indices, data = arrays
    flags = indptr.flags.num & indices.flags.num & data.flags.num
    return _lib is not None and data.dtype.isnative and flags & CONTIGUOUS_ALIGNED == CONTIGUOUS_ALIGNED


def copied(
    arrays: tuple[NDArray[Any], NDArray[Any], NDArray[Any]], chosen: NDArray[Any] | range, refuse: Callable[[], object]
) -> list[NDArray[Any]] | None:
    """Return (indptr, indices, data) of the rows `chosen` of arrays that `takes` accepts; None for SciPy to select.

    Negative numbers count from the end. `refuse` is called where the rows are not within the arrays.
    """
    indptr, indices, data = arrays
    at, n = _ffi.from_buffer, len(chosen)
    code, n_rows = _INDEX_CODES[indptr.dtype], indptr.size - 1
    if isinstance(chosen, range):
        numbers = _ffi.NULL, chosen.start, chosen.step, n
    else:
        whole = np.ascontiguousarray(chosen, INT64)
        numbers = at(scalar.WIDE_INDEX.array, whole), 0, 0, n
    own_indptr = np.empty(n + 1, indptr.dtype)
    nnz = _lib.asp_count_selected(code, n_rows, at(indptr), min(indices.size, data.size), *numbers, at(own_indptr))
    if nnz < 0:
        if nnz != _OUT_OF_RANGE:
            refuse()
        return None
    room, threads = _means()
    own = [own_indptr, room((nnz,), indices.dtype), room((nnz,), data.dtype)]
    _lib.asp_copy_selected(
        code, data.itemsize, n_rows, at(indptr), at(indices), at(data), *numbers, *map(at, own), threads
    )
    return own


def _means() -> tuple[Callable[..., NDArray[Any]], int]:
    """Return the allocator of results, and the maximum number of threads (0: all)."""
    if not light.is_complete:
        return empty, 0
    from autosparse._native import memory
    from autosparse.config import get_options

    return memory.empty_output, get_options().threads or 0
