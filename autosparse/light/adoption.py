"""Making of light matrices, and arrays of compressed rows from constructors' arguments without SciPy's checks.

Arguments are entries by coordinates, dense arrays and shapes. SciPy's methods construct many of their results from
such arguments. For 300 entries by coordinates SciPy's checks take 30 us, ten times as long as a small product.
Arguments that are not plainly valid are left to SciPy.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import sys
import weakref
from collections.abc import Callable
from typing import Any, Final

import numpy as np
import scipy.sparse as sps
from numpy.typing import NDArray
from scipy.sparse import _sparsetools
from scipy.sparse._sparsetools import (
    coo_tocsr,
    csr_has_canonical_format,
    csr_has_sorted_indices,
    csr_sort_indices,
    csr_sum_duplicates,
)

from autosparse import configured, forking, light
from autosparse.light import NOTHING, Arrays, Rows, is_shape

_LOOPS: Final = {
    (fmt, is_vector): getattr(_sparsetools, f"{fmt}_matvec{'' if is_vector else 's'}")
    for fmt in ("csr", "csc")
    for is_vector in (False, True)
}


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


def _new_items() -> tuple[tuple[str, Any], ...]:
    """Return the attributes that SciPy's constructors set besides shape and arrays (maxprint where it has it)."""
    made: Any = object.__new__(sps.csr_array)
    first = next(kind for kind in reversed(sps.csr_array.__mro__[:-1]) if "__init__" in vars(kind))
    first.__init__(made, (1, 1))
    return tuple(item for item in vars(made).items() if item[0] != "_shape")


_NEW_ITEMS: Final = _new_items()


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


def constructed(kind: Any, arg1: Any, shape: tuple[int, ...]) -> Any:
    """Return the object that SciPy's class `kind` makes of `arg1`, even while `asp.install` redirects its calls."""
    made: Any = object.__new__(kind)
    kind.__init__(made, arg1, shape=shape)
    return made


def is_large(n_entries: int) -> bool:
    """Return whether only a complete matrix holds so many entries; never after the library could not be loaded."""
    return n_entries > light.MAX_ENTRIES and not light._is_failed


def is_small(arg1: Any) -> bool:
    """Return whether a dense array, or entries by coordinates, have at most as many entries as a light matrix."""
    entries = arg1[0] if type(arg1) is tuple and len(arg1) == 2 else arg1
    return type(entries) is not np.ndarray or not is_large(entries.size)


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


def prepared(
    kind: Any, shape: Any, arrays: tuple[Any, Any, Any], copy: bool | None
) -> tuple[int, int, list[Any]] | None:
    """Return (n_major, n_minor, [indptr, indices, data]), with spare room cut off, for a matrix of class `kind`.

    Return None where SciPy should check the arrays. `copy` is the argument of `csr`: unless it is False, the caller
    copies the arrays.
    """
    indptr, indices, data = arrays
    if not (
        type(indptr) is type(indices) is type(data) is np.ndarray and light.takes_as_is(kind, shape, indptr, indices)
    ):
        return None
    n_major, n_minor = shape[::-1] if kind._transposed else shape
    if indptr.shape != (n_major + 1,) or indptr.item(0) or indices.shape != data.shape:
        return None
    if indices.shape != (nnz := indptr.item(-1),):
        if not can_be_cut(indices, data, nnz):
            return None
        indices, data = cut(indices, nnz), cut(data, nnz)
    elif copy is False and not (indices.base is None is data.base):
        indices, data = (part if light.fills(part) else part.copy() for part in (indices, data))
    return n_major, n_minor, [indptr, indices, data]


def can_be_cut(indices: NDArray[Any], data: NDArray[Any], nnz: int) -> bool:
    """Return whether indices and data have spare room behind the last of `nnz` entries, in memory that NumPy owns."""
    if indices.ndim != 1 or not 0 <= nnz < indices.size:
        return False
    return all(array.base is None or type(array.base) is np.ndarray for array in (indices, data))


def cut(array: NDArray[Any], nnz: int) -> NDArray[Any]:
    """Return the first `nnz` entries: a view, or (as SciPy's `prune`) a copy if they fill less than half the memory."""
    part = array[:nnz]
    return part if light.fills(part) else part.copy()


def adopt(made: Any, found: light.Arrays, *, copy: bool | None) -> Rows | None:
    """Make `made` a light matrix of these arrays, which are copied unless `copy` is False; return its rows.

    Where SciPy should check the arrays, the library is finished, or the matrix is large, nothing changes.
    """
    shape, *parts = found
    ready = None if shape is None else prepared(type(made), shape, (parts[0], parts[1], parts[2]), copy)
    if ready is None or is_large(ready[2][-1].size) or not ready[2][-1].dtype.isnative:
        return None
    n_major, n_minor, arrays = ready
    n_bytes = None
    if copy is not False:
        if not all(array.flags.writeable for array in arrays):
            return None
        arrays = _copied(arrays)
        n_bytes = sum(array.nbytes for array in arrays)
    rows = Rows(n_major, n_minor, arrays, n_bytes)
    return rows if register(made, rows, shape) else None


PAGES_FROM_BYTES: Final = 1 << 20
"""Minimum size in bytes of copied arrays for which the extension module is loaded (0.2 ms), which has huge pages.

Faults of small pages take 0.3 ms for each MiB.
"""


@functools.cache
def _allocator() -> Any:
    """Return the extension module's `empty`, which the runtime need not be loaded for; None without that module."""
    if sys.is_finalizing():
        return None
    with contextlib.suppress(ImportError, OSError), forking.loading():
        return getattr(importlib.import_module("autosparse._native").loaded_extension()[0], "empty", None)
    return None


def _copied(arrays: list[Any]) -> list[Any]:
    """Return copies of arrays, on huge pages if they are large."""
    n_bytes = sum(array.nbytes for array in arrays)
    empty = _allocator() if n_bytes >= PAGES_FROM_BYTES else None
    if empty is None:
        return [array.copy() for array in arrays]
    copies = [empty(array.shape, array.dtype, False) for array in arrays]
    for copy, array in zip(copies, arrays, strict=True):
        copy[...] = array
    return copies


def own_part(A: Any, shape: tuple[int, int], arrays: Any) -> Any:
    """Return a light matrix of A's class over new sound `arrays`, or copies of views; None without arrays.

    Where light matrices cannot be made any more, or the matrix is too large for one, the result is complete.
    """
    if arrays is None:
        return None
    indptr, indices, data = (array if array.base is None else array.copy() for array in arrays)
    made: Any = object.__new__(type(A))
    rows = Rows(indptr.size - 1, shape[not A._transposed], [indptr, indices, data], 0)
    if is_large(data.size) or not register(made, rows, shape):
        return type(A)((data, indices, indptr), shape=shape)
    source = light.rows_of(A)
    rows.checked = None if source is None or source.checked is None else (indptr, indices)
    return made


def part_of(A: Any, key: Any, found: tuple[tuple[Any, Any], Any]) -> Any:
    """Return what `key` selects of a light matrix A whose sound arrays were `found`; None for SciPy to select."""
    select = light.part_of or light.selector()
    part = select(A, key, (*found[0], found[1]), tuple) if select else None
    return own_part(A, *part[:2]) if type(part) is tuple else part


MAX_SCATTERED: Final = 1 << 16
"""Maximum number of multiplications for which SciPy's loop computes Mᵀ @ x, which adds to scattered elements.

The kernel on one thread takes 1.1 times as long as that loop.
"""


def is_left_to_scipy(rows: Rows, n_terms: int) -> bool:
    """Return whether SciPy's loop computes a product Mᵀ @ x; not the one that looks up what earlier processes left."""
    is_due = not rows.is_looked_up and rows.products_ns >= light.LOOKUP_NS and n_terms >= light.MIN_TERMS
    if is_due and light._products_ns < light.RUNTIME_NS:
        if configured.accounts_content():
            light._products_ns = light.RUNTIME_NS  # the look-up needs the runtime
        else:
            rows.is_looked_up = True
    return n_terms <= MAX_SCATTERED and (rows.is_looked_up or not is_due)


def in_common_type(values: Any, B: Any) -> tuple[Any, Any]:
    """Return values and a dense operand in the dtype of their product, to which SciPy's loops convert them, too.

    Return them unchanged where the C runtime has no kernel of that dtype.
    """
    own, other = values.dtype, B.dtype
    if own.char not in light.VALUE_TYPES or not (own.isnative and other.isnative):
        return values, B
    common = np.promote_types(own, other)
    if common.char not in light.KERNEL_TYPES:
        return values, B
    return values.astype(common, copy=False), B.astype(common, copy=False)


def dense_product(made: Any, arrays: Any, B: Any) -> Any:
    """Return A @ B by SciPy's loop, for the sound arrays of A and an array B of its dtype."""
    shape, is_vector = made._shape, B.ndim == 1 or B.shape[1] == 1
    C = np.zeros((shape[0], *B.shape[1:]), B.dtype)
    _LOOPS[made.format, is_vector](*shape, *(() if is_vector else B.shape[1:]), *arrays, B.ravel(), C.ravel())
    return C


def sparse_product(A: Any, rows: Rows, runtime: Any, B: Any) -> Any:
    """Return A @ B for a light matrix A with sound `rows` and a sparse matrix B; None where SciPy should multiply."""
    kind = type(A)
    is_kept = isinstance(A, sps.sparray) or rows.arrays[1].dtype == light.INT32  # matrix classes may narrow indices
    if A._twin._twin is not kind or not is_kept or rows.arrays[2].dtype != B.dtype:
        return None
    if type(other := B if B.format == A.format else B.asformat(A.format)) is not kind:
        adopted: Any = object.__new__(kind)
        other = adopted if adopt(adopted, light.arrays_of(adopted, other, None, None), copy=False) else None
    theirs = None if other is None else light.rows_of(other)
    if theirs is None:
        return None
    left, right = (theirs, rows) if A._transposed else (rows, theirs)
    return own_part(A, (A._shape[0], B.shape[1]), runtime.sparse_product(left, right))


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
