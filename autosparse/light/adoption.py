"""Making of light matrices, and arrays of compressed rows from constructors' arguments without SciPy's checks.

Arguments are entries by coordinates, dense arrays and shapes, from which SciPy's methods construct many results. For
300 entries SciPy's checks take 30 us, ten times as long as a small product. SciPy reads what is not plainly valid.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import sys
import weakref
from collections.abc import Callable
from time import perf_counter_ns
from typing import Any, Final

import numpy as np
import scipy.sparse as sps
from numpy.typing import NDArray
from scipy.sparse import _sparsetools as loops

from autosparse import configured, forking, light
from autosparse.light import NOTHING, Arrays, Rows


class ModuleName(str):
    """Value of ``__module__`` in autosparse's classes: "autosparse" on a class, SciPy's module on an instance.

    Libraries that test an object's module (pydata/sparse) accept instances as SciPy's. Pickles find the public class.
    """

    __slots__ = ()

    def __get__(self, made: Any, owner: type | None = None) -> str:
        return self if made is None else type(made)._plain_class.__module__

    def __reduce__(self) -> tuple[Any, ...]:
        return str, (str(self),)


def publish(kind: Any) -> None:
    """Make `autosparse` the public module of a class, for users and pickles.

    Pickle finds the class there without Python code, of which it would replace what a signal handler raises.
    """
    kind.__module__ = ModuleName("autosparse")
    setattr(sys.modules["autosparse"], kind.__name__, kind)
    if "__init__" in vars(sps.spmatrix) and issubclass(kind, sps.spmatrix):  # later than SciPy 1.18
        importlib.import_module("autosparse.light.deprecated").announce(kind)


def _new_items() -> tuple[tuple[str, Any], ...]:
    """Return the attributes that SciPy's constructors set besides shape and arrays (maxprint where it has it)."""
    made: Any = object.__new__(sps.csr_array)
    first = next(kind for kind in reversed(sps.csr_array.__mro__[:-1]) if "__init__" in vars(kind))
    first.__init__(made, *([(1, 1)] if "arg1" in first.__init__.__code__.co_varnames else []))  # 1.13: maxprint alone
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
    super(sps.spmatrix if issubclass(kind, sps.spmatrix) else kind, made).__init__(arg1, shape=shape)  # no warning
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

    Accepted are what `light.arrays_of` accepts, shapes, pairs (data, (rows, columns)), and dense arrays.
    """
    kind = type(arg1)
    if kind is list and shape is None and arg1 and type(arg1[0]) is list:
        arg1 = light.as_array(arg1)
    if (kind is tuple and len(arg1) == 2) or (type(arg1) is np.ndarray and shape is None):
        rare = light.rare_functions()
        return NOTHING if rare is None else rare.arrays_of(made, arg1, shape, dtype)
    found = light.arrays_of(made, arg1, shape)
    data = None if found is NOTHING else cast(found[3], dtype)
    return NOTHING if data is None else (*found[:3], data)


def cast(values: NDArray[Any], dtype: Any) -> Any:
    """Return values converted to `dtype`, as SciPy's constructors convert them; None where SciPy should do it."""
    if dtype is None or dtype is values.dtype:
        return values
    try:
        wanted = np.dtype(dtype)
    except (TypeError, ValueError):
        return None
    is_plain = wanted.char in light.VALUE_TYPES and wanted.isnative and np.can_cast(values.dtype, wanted, "same_kind")
    return values.astype(wanted, copy=False) if is_plain else None


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
"""Minimum size in bytes of copied arrays for which the extension module, which has huge pages, saves time: faults of
small pages take 0.3 ms for each MiB."""
LOADED_FROM_BYTES: Final = 1 << 21
"""The same where it must be loaded first, in 0.2 to 0.6 ms."""


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
    is_loaded = "autosparse._native._extension" in sys.modules
    empty = _allocator() if n_bytes >= (PAGES_FROM_BYTES if is_loaded else LOADED_FROM_BYTES) else None
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
"""Maximum number of multiplications of Mᵀ @ x by SciPy's loop: on one thread the kernel takes 1.1 times as long."""


def look_up(rows: Rows, B: Any, *, transposed: bool) -> None:
    """Let the next product load the library if earlier processes left a plan for M @ B, or Mᵀ @ B if `transposed`."""
    rows.looked_up = light.n_threads = light.n_threads or configured.likely_threads()
    if not configured.accounts_content() or sys.is_finalizing():
        return
    with contextlib.suppress(ImportError, OSError, MemoryError, RecursionError), forking.loading():
        rare = importlib.import_module("autosparse.light.rare")
        if rare.has_plan(rows, B, transposed=transposed):
            rows.is_planned, light._spent_ns = True, light.LOADING_NS


def in_common_type(values: Any, B: Any) -> tuple[Any, Any]:
    """Return values and a dense operand in the dtype of their product; unchanged if no kernel of the runtime has it."""
    own, other = values.dtype, B.dtype
    if own is other or own.char not in light.VALUE_TYPES or not (own.isnative and other.isnative):
        return values, B
    common = np.promote_types(own, other)
    if common.char not in light.KERNEL_TYPES:
        return values, B
    return values.astype(common, copy=False), B.astype(common, copy=False)


def dense_product(made: Any, arrays: Any, B: Any) -> Any:
    """Return A @ B by SciPy's loop, for the sound arrays of A and an array B of its dtype."""
    (n_rows, n_cols), is_csc, columns = made._shape, made._transposed, B.shape[1:]
    C = np.zeros((n_rows, *columns), B.dtype) if columns else np.zeros(n_rows, B.dtype)
    if columns and columns[0] != 1:  # as SciPy: for one column this loop takes 1.6 times as long as the other
        loop = loops.csc_matvecs if is_csc else loops.csr_matvecs
        loop(n_rows, n_cols, *columns, *arrays, B.ravel(), C.ravel())
    else:
        loop = loops.csc_matvec if is_csc else loops.csr_matvec
        loop(n_rows, n_cols, *arrays, B.ravel(), C.ravel() if columns else C)
    return C


def product_by_loop(made: Any, rows: Rows, B: Any) -> Any:
    """Return A @ B by SciPy's loop where nothing else is due, in 1.5 us less than the general way; else None."""
    if rows.is_exported and rows.is_held():  # first: names for the arrays would count as other code's
        return None
    indptr, indices, data = rows.arrays
    checked, n, dtype, is_vector = rows.checked, data.size, data.dtype, B.ndim == 1
    if checked is None or checked[0] is not indptr or checked[1] is not indices or n != indices.size or B.ndim > 2:
        return None
    is_other = B.shape[0] != made._shape[1] or made._twin._twin is not type(made)  # a subclass may have its own method
    n_terms, is_scattered = n if is_vector else n * B.shape[1], made._transposed and is_vector and n <= MAX_SCATTERED
    has_kernel = dtype.char in light.KERNEL_TYPES and not is_scattered
    may_gain = has_kernel and (2 if is_vector else 8) * n_terms >= light.MIN_TERMS  # `gains` takes 0.3 us
    gains = may_gain and light.gains(n_terms, B.shape, transposed=made._transposed)
    is_due = gains and light._products_ns >= light.RUNTIME_NS
    is_due = is_due or (rows.products_ns >= light.LOOKUP_NS and rows.looked_up != light.n_threads)
    if is_other or is_due or n_terms > light.MAX_TERMS or not light.may_be_light():
        return None
    if B.dtype is not dtype and (B := in_common_type(data, B)[1]).dtype != dtype:
        return None
    start_ns = perf_counter_ns()
    if is_vector:  # as `dense_product` does, in 0.3 us less
        C = np.zeros(made._shape[0], dtype)
        (loops.csc_matvec if made._transposed else loops.csr_matvec)(*made._shape, indptr, indices, data, B.ravel(), C)
    elif (k := B.shape[1]) != 1:  # likewise
        C, loop = np.zeros((made._shape[0], k), dtype), loops.csc_matvecs if made._transposed else loops.csr_matvecs
        loop(*made._shape, k, indptr, indices, data, B.ravel(), C.ravel())
    else:
        C = dense_product(made, (indptr, indices, data), B)
    took_ns = perf_counter_ns() - start_ns  # counted as `light.count` does, whose call takes 0.2 us
    light._spent_ns += took_ns if has_kernel else took_ns // light.LOOP_SHARE
    light._products_ns += took_ns * gains >> (is_vector and n_terms < light.MIN_TERMS)
    rows.products_ns, rows.n_products = rows.products_ns + took_ns, rows.n_products + 1
    return C


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
