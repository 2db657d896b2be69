"""Recognition of constructor arguments that SciPy would accept unchanged, so that its checks can be skipped.

SciPy's methods construct each of their results from such arguments. SciPy's checks take 8 us, three times as long as a
small product. Arguments that are not plainly valid are left to SciPy.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import scipy.sparse as sps
from numpy.typing import NDArray

_INT32, _INT64 = (np.dtype(sps.get_index_dtype(maxval=n)) for n in (0, 1 << 32))  # SciPy's two index types
_INT32_MAX: Final = np.iinfo(_INT32).max
VALUE_TYPES: Final = frozenset("?bBhHiIlLqQfdFD")
_PLAIN: Final = {sps.csr_array: "csr", sps.csr_matrix: "csr", sps.csc_array: "csc", sps.csc_matrix: "csc"}
_NOTHING: Final = None, None, None, None

Arrays = tuple[Any, Any, Any, Any]  # Any: unchecked arguments of the user
"""Tuple of shape, indptr, indices and data."""
Prepared = tuple[int, int, list[Any]]
"""Tuple of compressed rows, extent of the indices, and [indptr, indices, data]."""


def arrays_of(made: Any, arg1: Any, shape: Any, dtype: Any) -> Arrays:
    """Return (shape, indptr, indices, data) from a constructor's arguments; four None if SciPy must interpret them.

    Accepted are an `arg1` that is a matrix of the format of `made`, and a tuple (data, indices, indptr) with a
    shape and a known dtype.
    """
    kind = type(arg1)
    if kind is tuple:
        if len(arg1) != 3 or not _is_shape(shape):
            return _NOTHING
        data, indices, indptr = arg1
        if type(data) is not np.ndarray or data.dtype.char not in VALUE_TYPES or not data.dtype.isnative:
            return _NOTHING
        for part in arg1:
            if type(part) is np.ndarray and part.base is not None and not part.flags.aligned:
                return _NOTHING  # SciPy copies it
    elif shape is None and (kind is type(made) or _PLAIN.get(kind) == made.format):
        indptr, indices, data, shape = arg1.indptr, arg1.indices, arg1.data, arg1._shape
    else:
        return _NOTHING
    return (shape, indptr, indices, data) if dtype is None or dtype is data.dtype else _NOTHING


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
        from autosparse.operands.native_rows import check_bounds  # light matrices do without it

        check_bounds(indptr, indices, data, (n_major, n_minor), checked=False)
    return False


def fills(array: NDArray[Any]) -> bool:
    """Return whether the array takes at least half of the array that it is a view of; SciPy's `prune` copies others."""
    return type(array.base) is not np.ndarray or array.size >= array.base.size // 2


def prepared(kind: Any, shape: Any, arrays: tuple[Any, Any, Any], copy: bool | None) -> Prepared | None:
    """Return (n_major, n_minor, [indptr, indices, data]), with spare room cut off, for a matrix of class `kind`.

    Return None where SciPy should check the arrays. `copy` is the argument of `csr`: unless it is False, the caller
    copies the arrays.
    """
    indptr, indices, data = arrays
    if not (type(indptr) is type(indices) is type(data) is np.ndarray and takes_as_is(kind, shape, indptr, indices)):
        return None
    n_major, n_minor = shape[::-1] if kind._transposed else shape
    if indptr.shape != (n_major + 1,) or indptr.item(0) or indices.shape != data.shape:
        return None
    if indices.shape != (nnz := indptr.item(-1),):
        if not can_be_cut(indices, data, nnz):
            return None
        indices, data = cut(indices, nnz), cut(data, nnz)
    elif copy is False and not (indices.base is None is data.base):
        indices, data = (part if fills(part) else part.copy() for part in (indices, data))
    return n_major, n_minor, [indptr, indices, data]


def can_be_cut(indices: NDArray[Any], data: NDArray[Any], nnz: int) -> bool:
    """Return whether indices and data have spare room behind the last of `nnz` entries, in memory that NumPy owns."""
    if indices.ndim != 1 or not 0 <= nnz < indices.size:
        return False
    return all(array.base is None or type(array.base) is np.ndarray for array in (indices, data))


def cut(array: NDArray[Any], nnz: int) -> NDArray[Any]:
    """Return the first `nnz` entries: a view, or (as SciPy's `prune`) a copy if they fill less than half the memory."""
    part = array[:nnz]
    return part if fills(part) else part.copy()
