"""Compressed rows from entries by coordinates, from dense arrays and from a shape, without SciPy's checks.

SciPy's methods construct many of their results from such arguments. For 300 entries by coordinates SciPy's checks take
30 us, ten times as long as a small product. Arguments that are not plainly valid are left to SciPy.
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

from autosparse import light
from autosparse.core.dtypes import NarrowIndex, WideIndex
from autosparse.light import NOTHING, Arrays, is_shape

_INT32, _INT64 = np.dtype(NarrowIndex), np.dtype(WideIndex)
_INT32_MAX: Final = np.iinfo(NarrowIndex).max
_UNSIGNED: Final = {dtype: np.dtype(f"u{dtype.itemsize}") for dtype in (_INT32, _INT64)}


def arrays_of(made: Any, arg1: Any, shape: Any, dtype: Any) -> Arrays:
    """Return (shape, indptr, indices, data) from a constructor's arguments; four None if SciPy must interpret them.

    Accepted are what `light.arrays_of` accepts, pairs (data, (rows, columns)), and dense arrays.
    """
    kind = type(arg1)
    if kind is tuple and len(arg1) == 2 and shape is not None:
        return _of_entries(made, arg1, shape, dtype)
    if kind is np.ndarray and shape is None:
        return _of_dense(made, arg1, dtype)
    return light.arrays_of(made, arg1, shape, dtype)


def _of_entries(made: Any, pair: tuple[Any, Any], shape: Any, dtype: Any) -> Arrays:
    """Return new arrays in canonical format (sorted, without duplicates) from (data, (rows, columns)) with a shape."""
    first, second = pair
    if type(second) not in (tuple, list) or len(second) != 2 or not is_shape(shape) or max(shape) > _INT32_MAX:
        return NOTHING
    coords = [part for part, extent in zip(second, shape, strict=True) if _are_within(part, extent)]
    is_plain = len(coords) == 2 and _are_values(first) and (dtype is None or dtype is first.dtype) and first.ndim == 1
    if not is_plain or coords[0].dtype != coords[1].dtype or not coords[0].size == coords[1].size == first.size:
        return NOTHING
    if not isinstance(made, sps.sparray):
        coords = [part.astype(_INT32, copy=False) for part in coords]
    return shape, *_compressed(first, coords[::-1] if made._transposed else coords, made._swap(shape))


def _are_values(array: Any) -> bool:
    return type(array) is np.ndarray and array.dtype.char in light.VALUE_TYPES and array.dtype.isnative


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
        return NOTHING
    is_by_rows = bool(dense.flags.c_contiguous)
    if not (is_by_rows or dense.flags.f_contiguous):
        return NOTHING
    flat = (dense if is_by_rows else dense.T).ravel()
    width = dense.shape[is_by_rows]
    places = flat.nonzero()[0]
    values, inner = flat[places], (places % width).astype(_INT32)
    if is_by_rows is made._transposed:  # the other order: a counting sort
        coords = [inner, (places // width).astype(_INT32)]
        return dense.shape, *_compressed(values, coords, made._swap(dense.shape))
    return dense.shape, places.searchsorted(np.arange(0, flat.size + 1, width)).astype(_INT32), inner, values
