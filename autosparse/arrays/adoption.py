"""Recognition of constructor arguments that SciPy would accept unchanged, so that its checks can be skipped.

SciPy's methods construct each of their results from such arguments. SciPy's checks take 8 us, three times as long as a
small product; those of entries by coordinates take 30 us. Arguments that are not plainly valid are left to SciPy.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import scipy.sparse as sps
from numpy.typing import NDArray
from scipy.sparse._sparsetools import (
    coo_tocsr,
    csr_has_canonical_format,
    csr_has_sorted_indices,
    csr_sort_indices,
    csr_sum_duplicates,
)

from autosparse.core.dtypes import NarrowIndex, WideIndex
from autosparse.operands.native_rows import check_bounds

_INT32, _INT64 = np.dtype(NarrowIndex), np.dtype(WideIndex)
_INT32_MAX: Final = np.iinfo(NarrowIndex).max
_UNSIGNED: Final = {dtype: np.dtype(f"u{dtype.itemsize}") for dtype in (_INT32, _INT64)}
_VALUE_TYPES: Final = frozenset("?bBhHiIlLqQfdFD")
_PLAIN: Final = {sps.csr_array: "csr", sps.csr_matrix: "csr", sps.csc_array: "csc", sps.csc_matrix: "csc"}
_NOTHING: Final = None, None, None, None

Arrays = tuple[Any, Any, Any, Any]  # Any: unchecked arguments of the user
"""Tuple of shape, indptr, indices and data."""


def arrays_of(made: Any, arg1: Any, shape: Any, dtype: Any) -> Arrays:
    """Return (shape, indptr, indices, data) from a constructor's arguments; four None if SciPy must interpret them.

    Accepted are an `arg1` that is a matrix of the format of `made`, a tuple (data, indices, indptr) with a shape and
    a known dtype, and what `_of_pair` and `_of_dense` take.
    """
    kind = type(arg1)
    if kind is tuple:
        if len(arg1) == 2:
            return _of_pair(made, arg1, shape, dtype)
        if len(arg1) != 3 or not _is_shape(shape):
            return _NOTHING
        data, indices, indptr = arg1
        if type(data) is not np.ndarray or data.dtype.char not in _VALUE_TYPES or not data.dtype.isnative:
            return _NOTHING
        for part in arg1:
            if type(part) is np.ndarray and part.base is not None and not part.flags.aligned:
                return _NOTHING  # SciPy copies it
    elif shape is None and (kind is type(made) or _PLAIN.get(kind) == made.format):
        indptr, indices, data, shape = arg1.indptr, arg1.indices, arg1.data, arg1._shape
    elif kind is np.ndarray and shape is None:
        return _of_dense(made, arg1, dtype)
    else:
        return _NOTHING
    return (shape, indptr, indices, data) if dtype is None or dtype is data.dtype else _NOTHING


def _of_pair(made: Any, pair: tuple[Any, Any], shape: Any, dtype: Any) -> Arrays:
    """Return new arrays from (n_rows, n_cols) without dtype, or from (data, (rows, columns)) with a shape.

    The latter are in canonical format: sorted, and without duplicates.
    """
    first, second = pair
    if type(first) is int:
        if shape is not None or dtype is not None or not _is_shape((first, second)) or max(first, second) > _INT32_MAX:
            return _NOTHING
        starts = np.zeros((second if made._transposed else first) + 1, _INT32)
        return (first, second), starts, np.zeros(0, _INT32), np.zeros(0)
    if type(second) not in (tuple, list) or len(second) != 2 or not _is_shape(shape) or max(shape) > _INT32_MAX:
        return _NOTHING
    coords = [part for part, extent in zip(second, shape, strict=True) if _are_within(part, extent)]
    is_plain = len(coords) == 2 and _are_values(first) and (dtype is None or dtype is first.dtype) and first.ndim == 1
    if not is_plain or coords[0].dtype != coords[1].dtype or not coords[0].size == coords[1].size == first.size:
        return _NOTHING
    if not isinstance(made, sps.sparray):
        coords = [part.astype(_INT32, copy=False) for part in coords]
    return shape, *_compressed(first, coords[::-1] if made._transposed else coords, made._swap(shape))


def _are_values(array: Any) -> bool:
    return type(array) is np.ndarray and array.dtype.char in _VALUE_TYPES and array.dtype.isnative


def _are_within(numbers: Any, extent: int) -> bool:
    """Return whether this is a vector of at least one int32 or int64 number, all of which are in [0, extent)."""
    if type(numbers) is not np.ndarray or numbers.ndim != 1 or not 0 < numbers.size <= _INT32_MAX:
        return False
    unsigned = _UNSIGNED.get(numbers.dtype)
    return unsigned is not None and bool(numbers.view(unsigned).max() < extent)  # negative numbers become large ones


def _compressed(
    values: NDArray[Any], coords: list[NDArray[Any]], shape: tuple[int, int]
) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    """Return (indptr, indices, data) of entries by coordinates, which are within `shape`, by SciPy's loops.

    The indices are sorted and the duplicates added. There may be spare room behind the last entry.
    """
    (major, minor), (n_major, n_minor) = coords, shape
    indptr, indices, data = np.empty(n_major + 1, major.dtype), np.empty_like(minor), np.empty_like(values)
    coo_tocsr(n_major, n_minor, values.size, major, minor, values, indptr, indices, data)
    if not csr_has_canonical_format(n_major, indptr, indices):
        if not csr_has_sorted_indices(n_major, indptr, indices):
            csr_sort_indices(n_major, indptr, indices, data)
        csr_sum_duplicates(n_major, n_minor, indptr, indices, data)
    return indptr, indices, data


def _of_dense(made: Any, dense: NDArray[Any], dtype: Any) -> Arrays:
    """Return new arrays of the entries of a dense array that are not zero."""
    is_plain = _are_values(dense) and (dtype is None or dtype is dense.dtype) and dense.ndim == 2
    if not is_plain or not 0 < dense.size <= _INT32_MAX:
        return _NOTHING
    is_by_rows = bool(dense.flags.c_contiguous)
    if not (is_by_rows or dense.flags.f_contiguous):
        return _NOTHING
    flat = (dense if is_by_rows else dense.T).ravel()
    width = dense.shape[is_by_rows]
    places = flat.nonzero()[0]
    values, inner = flat[places], (places % width).astype(_INT32)
    if is_by_rows is made._transposed:  # the other order: a counting sort
        coords = [inner, (places // width).astype(_INT32)]
        return dense.shape, *_compressed(values, coords, made._swap(dense.shape))
    return dense.shape, places.searchsorted(np.arange(0, flat.size + 1, width)).astype(_INT32), inner, values


def _is_shape(shape: Any) -> bool:
    if type(shape) is not tuple or len(shape) != 2:
        return False
    n_rows, n_cols = shape
    return type(n_rows) is type(n_cols) is int and n_rows >= 0 and n_cols >= 0


def takes_as_is(kind: type, shape: tuple[int, ...], indptr: NDArray[Any], indices: NDArray[Any]) -> bool:
    """Return whether the constructor of the SciPy class that `kind` extends keeps the dtype of these index arrays."""
    if len(shape) != 2 or indices.dtype != indptr.dtype:
        return False
    if indices.dtype == _INT32:
        return shape[0] <= _INT32_MAX and shape[1] <= _INT32_MAX
    return bool(indices.dtype == _INT64) and issubclass(kind, sps.sparray)  # matrix classes may narrow to int32


def are_whole(arrays: tuple[Any, Any, Any], n_major: int, n_minor: int) -> bool:
    """Return whether SciPy would share (indptr, indices, data): exactly the entries that indptr counts, no spare room.

    Raises StructureError where there are too few entries.
    """
    indptr, indices, data = arrays
    if not (type(indptr) is type(indices) is type(data) is np.ndarray):
        return False
    is_start = indptr.shape == (n_major + 1,) and not indptr.item(0)
    if is_start and indices.shape == data.shape == (indptr.item(-1),):
        return (indices.base is None or fills(indices)) and (data.base is None or fills(data))
    if indptr.ndim == indices.ndim == data.ndim == 1 and indptr.size:
        check_bounds(indptr, indices, data, (n_major, n_minor), checked=False)
    return False


def fills(array: NDArray[Any]) -> bool:
    """Return whether the array takes at least half of the array that it is a view of; SciPy's `prune` copies others."""
    return type(array.base) is not np.ndarray or array.size >= array.base.size // 2


def can_be_cut(indices: NDArray[Any], data: NDArray[Any], nnz: int) -> bool:
    """Return whether indices and data have spare room behind the last of `nnz` entries, in memory that NumPy owns."""
    if indices.ndim != 1 or not 0 <= nnz < indices.size:
        return False
    return all(array.base is None or type(array.base) is np.ndarray for array in (indices, data))


def cut(array: NDArray[Any], nnz: int) -> NDArray[Any]:
    """Return the first `nnz` entries: a view, or (as SciPy's `prune`) a copy if they fill less than half the memory."""
    part = array[:nnz]
    return part if fills(part) else part.copy()
