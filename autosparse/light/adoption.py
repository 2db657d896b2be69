"""Making of light matrices, and arrays of compressed rows from constructors' arguments without SciPy's checks.

Arguments are entries by coordinates, dense arrays and shapes. SciPy's methods construct many of their results from
such arguments. For 300 entries by coordinates SciPy's checks take 30 us, ten times as long as a small product.
Arguments that are not plainly valid are left to SciPy.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
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
from autosparse.light import NOTHING, Arrays, Rows, is_shape


class ModuleName(str):
    """Value of ``__module__`` in autosparse's classes: "autosparse" on a class, SciPy's module on an instance.

    Libraries that test an object's module for SciPy's (pydata/sparse) thereby accept instances as SciPy objects. Users
    and pickles find the class itself in its public module.
    """

    __slots__ = ()

    def __get__(self, made: Any, owner: type | None = None) -> str:
        return self if made is None else type(made)._plain_class.__module__

    def __reduce__(self) -> tuple[Any, ...]:
        return str, (str(self),)


_NEW_ITEMS: Final = tuple(
    item for item in vars(sps.csr_array((1, 1))).items() if item[0] not in {"indptr", "indices", "data", "_shape"}
)
"""Attributes that SciPy's constructor sets besides shape and arrays (maxprint where it has it)."""


attributes: Final[Callable[[Any], dict[str, Any]]] = next(
    vars(kind)["__dict__"] for kind in sps.csr_array.__mro__ if "__dict__" in vars(kind)
).__get__
"""Getter behind the ``__dict__`` of SciPy's classes, which autosparse's classes override."""


def set_state(made: Any, shape: tuple[int, ...]) -> None:
    """Set `shape` and the other attributes that SciPy's constructors set on `made` besides the arrays.

    They are set one by one, so that the object needs no dict.
    """
    made._shape = shape
    for name, value in _NEW_ITEMS:
        setattr(made, name, value)


def is_small(arg1: Any) -> bool:
    """Return whether a dense array, or entries by coordinates, have at most as many entries as a light matrix."""
    entries = arg1[0] if type(arg1) is tuple and len(arg1) == 2 else arg1
    return type(entries) is not np.ndarray or entries.size <= light.MAX_TERMS


def arrays_of(made: Any, arg1: Any, shape: Any, dtype: Any) -> Arrays:
    """Return (shape, indptr, indices, data) from a constructor's arguments; four None if SciPy must interpret them.

    Accepted are what `light.arrays_of` accepts, pairs (data, (rows, columns)), and dense arrays.
    """
    kind = type(arg1)
    if kind is tuple and len(arg1) == 2 and not is_shape(arg1):
        return _of_entries(made, arg1, shape, dtype)
    if kind is list and shape is None and arg1 and type(arg1[0]) is list:
        try:
            arg1, kind = np.asarray(arg1), np.ndarray
        except (ValueError, TypeError, RuntimeError):  # rows of different lengths, or of a tensor's elements
            return NOTHING
    if kind is np.ndarray and shape is None:
        return _of_dense(made, arg1, dtype)
    return light.arrays_of(made, arg1, shape, dtype)


def _of_entries(made: Any, pair: tuple[Any, Any], shape: Any, dtype: Any) -> Arrays:
    """Return new arrays in canonical format (sorted, without duplicates) from (data, (rows, columns))."""
    first, second = pair
    if type(second) not in (tuple, list) or len(second) != 2:
        return NOTHING
    if shape is None:
        shape = tuple(int(part.max()) + 1 if type(part) is np.ndarray and part.size else 0 for part in second)
    if not is_shape(shape) or max(shape) > light.INT32_MAX:
        return NOTHING
    coords = [part for part, extent in zip(second, shape, strict=True) if _are_within(part, extent)]
    is_plain = len(coords) == 2 and _are_values(first) and (dtype is None or dtype is first.dtype) and first.ndim == 1
    if not is_plain or coords[0].dtype != coords[1].dtype or not coords[0].size == coords[1].size == first.size:
        return NOTHING
    if not isinstance(made, sps.sparray):
        coords = [part.astype(light.INT32, copy=False) for part in coords]
    return shape, *_compressed(first, coords[::-1] if made._transposed else coords, made._swap(shape))


def _are_values(array: Any) -> bool:
    return type(array) is np.ndarray and array.dtype.char in light.VALUE_TYPES and array.dtype.isnative


def _are_within(numbers: Any, extent: int) -> bool:
    """Return whether this is a vector of at least one int32 or int64 number, all of which are in [0, extent)."""
    if type(numbers) is not np.ndarray or numbers.ndim != 1 or not 0 < numbers.size <= light.INT32_MAX:
        return False
    unsigned = light.UNSIGNED.get(numbers.dtype)
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
    if not is_plain or not 0 < dense.size <= light.INT32_MAX:
        return NOTHING
    is_by_rows = bool(dense.flags.c_contiguous)
    if not (is_by_rows or dense.flags.f_contiguous):
        return NOTHING
    flat = (dense if is_by_rows else dense.T).ravel()
    width = dense.shape[is_by_rows]
    places = flat.nonzero()[0]
    values, inner = flat[places], (places % width).astype(light.INT32)
    if is_by_rows is made._transposed:  # the other order: a counting sort
        coords = [inner, (places // width).astype(light.INT32)]
        return dense.shape, *_compressed(values, coords, made._swap(dense.shape))
    return dense.shape, places.searchsorted(np.arange(0, flat.size + 1, width)).astype(light.INT32), inner, values


def adopt(made: Any, found: light.Arrays, *, copy: bool | None) -> Rows | None:
    """Make `made` a light matrix of these arrays, which are copied unless `copy` is False; return its rows.

    Where SciPy should check the arrays, the library is finished, or the matrix is large, nothing changes.
    """
    shape, *parts = found
    prepared = None if shape is None else light.prepared(type(made), shape, (parts[0], parts[1], parts[2]), copy)
    if prepared is None or prepared[2][-1].size > light.MAX_TERMS or not prepared[2][-1].dtype.isnative:
        return None
    n_major, n_minor, arrays = prepared
    n_bytes = None
    if copy is not False:
        if not all(array.flags.writeable for array in arrays):
            return None
        arrays = [array.copy() for array in arrays]
        n_bytes = sum(array.nbytes for array in arrays)
    rows = Rows(n_major, n_minor, arrays, n_bytes)
    return rows if register(made, rows, shape) else None


def register(made: Any, rows: Rows, shape: tuple[int, ...]) -> bool:
    """Make `made` a light matrix of these rows, unless the library is finished; return whether it is one."""
    key = id(made)
    with light.FINISHING:
        if light.is_complete:
            return False
        made._light = rows
        set_state(made, shape)
        light.alive[key] = weakref.ref(made, lambda _: light.alive.pop(key, None))
    return True
