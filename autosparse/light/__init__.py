"""Classes csr and csc for programs that end early: SciPy's methods over the matrix's arrays, without the library.

Loading the library takes as long as hundreds of small products. Until products and slices of the process have taken
`LOADING_NS` together, matrices are light: methods are SciPy's. After the first products the C runtime is loaded, whose
kernels multiply from then on (`native`); no other module is imported. `complete` loads the library. The module
`arrays.family` then gives every light matrix an operand and replaces the base `Light` of the four classes by
`AutoSparseMatrix`. The classes and the objects stay the same.

Light and complete matrices have the same results. Where SciPy's methods differ (errors with hints, tuning), and after
the program has used an option, the library is loaded first.
"""

from __future__ import annotations

import contextlib
import importlib
import sys
import weakref
from collections.abc import Callable
from time import perf_counter_ns
from typing import Any, Final

import numpy as np
import scipy
import scipy.sparse as sps
from numpy.typing import NDArray

from autosparse import configured, forking

LOADING_NS: Final = 16_000_000
"""Time in ns of products, conversions and slices after which the library is loaded, which takes 8 to 12 ms. Half of it
made programs of 20 to 60 ms 7 % slower (geometric mean of 13) and longer ones no faster (12 of 50 to 160 ms)."""
RUNTIME_NS: Final = 3_000_000
"""Time in ns of products accepted by `gains` after which the C runtime is loaded, in 1.5 ms; it saves a third to a half
of them. For products of two sparse matrices it is loaded after half as much counts towards `LOADING_NS`."""
LOOP_SHARE: Final = 2
"""Divisor of the time of SciPy's loops before it counts towards `LOADING_NS`: the library's loops take half as long.
It also divides the time of selections, and of the runtime's products with dense operands, because the library tunes
those. With 4 in place of 2, programs of 0.2 s ran at 0.84 to 0.94 of the speed."""
SPARSE_SHARE: Final = 8
"""The same for products of two sparse matrices by the runtime, which the library computes as fast."""
SELECTIONS: Final = 6
"""Number of selections by SciPy's methods (15 to 70 us each) before `selection` is imported, which takes 0.3 ms; the
same for sums."""
LONG_SUM: Final = 1 << 18
"""Number of entries of the left matrix of a sum for which loading the C runtime, in 1.5 ms, pays at once."""
LOOKUP_NS: Final = 500_000
"""Time in ns of products of one matrix with dense operands after which a remembered plan loads the library."""
MIN_TERMS: Final = 1 << 16
"""Minimum cost, in multiplications, of a product for which a kernel called through cffi is faster than SciPy's loop:
with 35,000 entries, M @ x takes 26 to 36 us instead of 20 to 26. Two thirds of it suffice for M @ x, whose time
then counts half towards `RUNTIME_NS`, and half of it for several columns of M @ X."""
MAX_TERMS: Final = 1 << 20
"""Maximum number of multiplications of a product of two sparse matrices that SciPy computes: 10 ms."""
MAX_LOOP_TERMS: Final = 1 << 23
"""Maximum number of multiplications of a product with a dense operand that SciPy computes, and of two sparse matrices
that the C runtime computes without the library: 10 ms."""
MAX_ENTRIES: Final = 1 << 20
"""Maximum number of entries of a light matrix. SciPy's loops convert larger ones too slowly, on one thread."""
_LIBRARY: Final = ("autosparse.arrays.construct", "autosparse.arrays.family")
"""Modules whose import makes the classes complete."""
VERSION_OF_SCIPY: Final = tuple(map(int, scipy.__version__.split(".")[:2]))
NEIGHBOURS: Final = ("anndata", "dask.array", "threadpoolctl")
"""Libraries with which the complete classes are registered (`interop.neighbours`)."""
_LOADS: Final = frozenset({"autosparse.config", *NEIGHBOURS})  # the only module that interprets settings, and these
_modules: Final = sys.modules

is_complete = False
_spent_ns = _products_ns = 0
n_threads = 0  # of products: an estimate from the first look-up on, exact once the C runtime is loaded
_native: Any = None  # the module `native`, once the C runtime is loaded
part_of: Callable[..., Any] | None = None  # `selection.part_of`, once it is imported
_sums: Any = None  # the module `sums`, once it is imported
_rare: Any = None  # the module `rare`, once it is imported
_n_calls: Final[dict[str, int]] = {}  # calls by the names of modules
_is_unavailable = False  # whether loading it failed
_is_failed = False  # whether the library could not be loaded, for example for lack of file descriptors
_is_set: bool | None = None  # whether the environment sets options; None until the first matrix
FINISHING: Final = forking.rlock()  # held while classes are finished, and while a light matrix is registered
_probe: Final = [object()]
_UNHELD: Final = sys.getrefcount(_probe[0])
"""Count of references to an object that only a list holds."""
alive: Final[dict[int, weakref.ref[Any]]] = {}
"""References to all light matrices, by their ids."""


def complete() -> bool:
    """Load the library, which makes every matrix complete; return whether it is loaded."""
    global _is_failed
    if is_complete:
        return True
    if sys.is_finalizing():  # modules cannot be imported: a product in `__del__` at exit
        return False
    try:
        with forking.loading():
            importlib.import_module("autosparse.arrays.construct")
    except (ImportError, OSError):  # no file descriptor left, or another root directory
        _is_failed = not _is_loading()
        return False
    return is_complete


def _is_loading() -> bool:
    """Return whether the library is being loaded, perhaps by code that a signal handler has interrupted."""
    return not _modules.keys().isdisjoint(_LIBRARY)


def may_be_light() -> bool:
    """Return whether the library need not be loaded yet."""
    global _is_set
    if is_complete:
        return False
    if _is_failed or _is_loading():
        return True
    if _is_set is None:
        _is_set = configured.by_environment()
    return _spent_ns < LOADING_NS and not _is_set and _modules.keys().isdisjoint(_LOADS)


def count(
    start_ns: int, kept: Any = (), made: Any = None, *, share: int, is_product: bool = False, dense: Rows | None = None
) -> None:
    """Add what the library would save of the time since `start_ns`, after a method: one part of `share`.

    `kept`: rows and their `checked` before the method. `is_product`: a kernel of the C runtime gains by computing it;
    `dense`: the rows of a product with a dense operand.
    """
    global _spent_ns, _products_ns
    took_ns = perf_counter_ns() - start_ns
    _spent_ns += took_ns // share
    _products_ns += took_ns * is_product
    if dense is not None:
        dense.products_ns += took_ns
        dense.n_products += 1
    restore(kept, made)


def restore(kept: Any, made: Any) -> None:
    """Set `checked` of rows to what it was before a method, whose result is sound if the first of them are.

    SciPy's methods do not keep the arrays that they fetch.
    """
    if kept and kept[0][1] is not None and (own := rows_of(made)) is not None:
        own.checked = own.arrays[0], own.arrays[1]
    for rows, checked in kept:
        rows.checked = checked


def runtime() -> Any:
    """Return the module `native`, for which the C runtime is loaded; None where it cannot be."""
    global _native, _is_unavailable
    if _native is None and not _is_unavailable and not sys.is_finalizing():
        try:
            with forking.loading():
                _native = importlib.import_module("autosparse.light.native")
        except (ImportError, OSError):  # no file descriptor left, or another root directory
            _is_unavailable = True
    return _native


def _imported(name: str, *, at_once: bool) -> Any:
    """Return a module of this package after `SELECTIONS` calls, or at once; else None."""
    n_calls = _n_calls[name] = _n_calls.get(name, 0) + 1
    if (at_once or n_calls > SELECTIONS) and not sys.is_finalizing():
        with contextlib.suppress(ImportError, OSError), forking.loading():
            return importlib.import_module(f"autosparse.light.{name}")
    return None


def selector() -> Callable[..., Any] | None:
    """Return `selection.part_of` after `SELECTIONS` calls, or once the library is loaded; else None."""
    global part_of
    if (module := _imported("selection", at_once=is_complete)) is not None:
        part_of = module.part_of
    return part_of


def summer(A: Any) -> Any:
    """Return the module `sums` after `SELECTIONS` sums, or for a large matrix A; else None."""
    global _sums
    _sums = _sums or _imported("sums", at_once=A.nnz >= LONG_SUM)
    return _sums


def rare_functions() -> Any:
    """Return the module `rare`; None where it cannot be imported."""
    global _rare
    _rare = _rare or _imported("rare", at_once=True)
    return _rare


def gains(n_terms: int, shape: tuple[int, ...], *, transposed: bool) -> bool:
    """Return whether a kernel of the C runtime computes M @ X, or Mᵀ @ X, for a dense X of this shape faster."""
    n_vecs = shape[-1] if len(shape) > 1 else 1
    reading = 4 * n_terms // max(1, n_vecs)  # an entry costs as much as four multiplications
    one = n_terms if transposed else n_terms * 3 // 2
    cost = one if n_vecs == 1 else (n_terms + reading) * (1 if transposed else 2)
    return cost >= MIN_TERMS or n_terms > MAX_TERMS


def is_sparse_due(n_terms: int) -> bool:
    """Return whether the C runtime should compute a product of two sparse matrices with so many multiplications."""
    return n_terms <= MAX_LOOP_TERMS and (n_terms > MAX_TERMS or _spent_ns >= RUNTIME_NS // 2)


def rows_of(made: Any) -> Rows | None:
    """Return the rows of a light matrix, else None. Not by its `__getattr__`, which classes of users define."""
    try:
        return type(made)._light.__get__(made)  # type: ignore[no-any-return]
    except AttributeError:  # no matrix, or one that was complete from the beginning
        return None


class Rows:
    """Arrays of a light matrix, which its transpose shares."""

    __slots__ = (
        "arrays", "checked", "copied_bytes", "is_exported", "is_planned", "is_shared", "looked_up", "n_major",
        "n_minor", "n_products", "native", "products_ns",
    )  # fmt: skip

    def __init__(self, n_major: int, n_minor: int, arrays: list[Any], copied_bytes: int | None) -> None:
        self.n_major, self.n_minor, self.arrays, self.copied_bytes = n_major, n_minor, arrays, copied_bytes
        self.is_exported = self.is_planned = self.is_shared = False
        self.products_ns = self.n_products = 0  # with dense operands
        self.looked_up = -1  # number of threads for which a remembered plan was looked up
        self.checked: tuple[Any, Any] | None = None  # the last row starts and indices that were found sound
        self.native: Any = None  # what calls of kernels from C compare (`native.fast_call`), once there is one

    def export(self) -> None:
        """Note that other code may hold the index arrays from now on, which calls from C would not check again."""
        self.checked, self.is_exported = None, True
        if (native := self.native) is not None:
            native[0].rows = self.native = None

    def sound(self) -> tuple[tuple[Any, Any], Any] | None:
        """Return (row starts, indices) and values if every index is in bounds, else None.

        Arrays are checked again where they may have changed. Another thread may replace them at any time, so loops
        read the arrays that are returned.
        """
        is_held, checked = self.is_exported and self.is_held(), self.checked
        indptr, indices, data = self.arrays
        if checked is None or is_held or not (checked[0] is indptr and checked[1] is indices):
            is_safe = is_sound(indptr, indices, data, self.n_major, self.n_minor)
            checked = (indptr, indices) if is_safe else None
            self.checked = None if is_held else checked  # its holder may write and let go before the next call
        return (checked, data) if checked is not None and data.size == indices.size else None

    def is_held(self) -> bool:
        """Return whether other code may hold row starts or indices, and write to them at any time."""
        arrays, n_own = self.arrays, _UNHELD + (self.checked is not None)
        return max(sys.getrefcount(arrays[0]), sys.getrefcount(arrays[1])) > n_own or not all(map(_is_own, arrays[:2]))


def _is_own(array: Any) -> bool:
    """Return whether no weak reference leads to the memory of an array, and no other array but one it is a part of."""
    if array.base is None or weakref.getweakrefcount(array):
        return not weakref.getweakrefcount(array)
    is_whole = type(array.base) is np.ndarray and array.base.base is None and not weakref.getweakrefcount(array.base)
    return is_whole and sys.getrefcount(array.base) <= _UNHELD  # SciPy's sums are the first parts of new arrays


def is_sound(indptr: Any, indices: Any, data: Any, n_major: int, n_minor: int) -> bool:
    """Return whether row starts rise from 0 to the number of entries, and indices are int32 or int64 and in bounds."""
    if indptr.size != n_major + 1 or indptr.item(0) or not indptr.item(-1) == indices.size == data.size:
        return False
    unsigned = UNSIGNED.get(indices.dtype)
    if unsigned is None or np.count_nonzero(indptr[1:] < indptr[:-1]):  # half the time of `any`
        return False
    return not indices.size or bool(_largest(indices.view(unsigned)) < n_minor)  # a negative index is a large one


def is_sound_matrix(other: Any) -> bool:
    """Return whether the index arrays of another sparse matrix are within bounds, where it has row starts."""
    if (rows := rows_of(other)) is not None:
        return rows.sound() is not None
    is_compressed = other.format in ("csr", "csc")
    return not is_compressed or is_sound(other.indptr, other.indices, other.data, *other._swap(other.shape))


def n_terms(made: Any, rows: Rows, other: Any) -> int | None:
    """Return the number of multiplications of a light matrix and `other`; None where the library must be loaded.

    For two sparse matrices it is an upper bound if that is at most `MAX_TERMS`, and where their formats differ, an
    estimate.
    """
    n_inner, n_values = made._shape[1], rows.arrays[1].size  # a reference to an array would count as one of other code
    if type(other) is np.ndarray:
        if not 0 < other.ndim <= 2 or other.shape[0] != n_inner or other.dtype.char not in VALUE_TYPES:
            return None
        n = n_values * (1 if other.ndim == 1 else other.shape[1])
    else:
        is_matrix = sps.issparse(other) and other.ndim == 2 and other.shape[0] == n_inner
        if not (is_matrix and rows.sound() and is_sound_matrix(other)):
            return None
        n = n_values * other.nnz
        if n > MAX_TERMS and other.format != made.format:
            n = n_values * (other.offsets.size if other.format == "dia" else 1 + other.nnz // max(1, n_inner))
        elif n > MAX_TERMS >= n_values:
            right = theirs.arrays if (theirs := rows_of(other)) is not None else [other.indptr, other.indices]
            first, second = (rows.arrays, right) if made.format == "csr" else (right, rows.arrays)
            n = int(np.diff(second[0])[first[1]].sum())
    return n if may_be_light() else None


# -- recognition of constructor arguments that SciPy would accept unchanged. SciPy's methods construct each of their
# results from such arguments. SciPy's checks take 8 us, three times as long as a small product.

INT32, INT64 = (np.dtype(f"i{n_bytes}") for n_bytes in (4, 8))  # SciPy's two index types
INT32_MAX: Final = (1 << 31) - 1
UNSIGNED: Final = {dtype: np.dtype(f"u{dtype.itemsize}") for dtype in (INT32, INT64)}
KERNEL_TYPES: Final = frozenset("fdFD")  # values for which the C runtime has kernels of one dtype
_largest: Final = np.maximum.reduce
VALUE_TYPES: Final = frozenset("?bBhHiIlLqQfdFD")
PLAIN_TYPES: Final = VALUE_TYPES - frozenset("qQ")
"""Type codes of values for which SciPy's results have the type of the values; for synonyms of int64 some have not."""
_PLAIN: Final = {sps.csr_array: "csr", sps.csr_matrix: "csr", sps.csc_array: "csc", sps.csc_matrix: "csc"}
NOTHING: Final = None, None, None, None
Arrays = tuple[Any, Any, Any, Any]  # shape, indptr, indices and data; Any: unchecked arguments of the user


def arrays_of(made: Any, arg1: Any, shape: Any = None) -> Arrays:
    """Return (shape, indptr, indices, data) from a constructor's arguments; four None if SciPy must interpret them.

    Accepted are an `arg1` that is a matrix of the format of `made`, and a tuple (data, indices, indptr).
    """
    kind = type(arg1)
    if kind is tuple:
        if len(arg1) != 3:
            return NOTHING
        data, indices, indptr = arg1
        if shape is None and rare_functions() is not None:
            shape = _rare.least_shape(made, indices, indptr)
        if not is_shape(shape):
            return NOTHING
        if not isinstance(made, sps.sparray) and type(indices) is type(indptr) is np.ndarray:
            indices, indptr = _narrowed(indices, indptr, max(shape))
            arg1 = data, indices, indptr
        if type(data) is not np.ndarray or data.dtype.char not in VALUE_TYPES or not data.dtype.isnative:
            return NOTHING
        for part in arg1:
            if type(part) is np.ndarray and part.base is not None and not part.flags.aligned:
                return NOTHING  # SciPy copies it
    elif shape is None and (kind is type(made) or _format_of(kind) == made.format):
        indptr, indices, data, shape = arg1.indptr, arg1.indices, arg1.data, arg1._shape
    else:
        return NOTHING
    return shape, indptr, indices, data


def _narrowed(indices: Any, indptr: Any, extent: int) -> tuple[Any, Any]:
    """Return index arrays of a matrix class, converted to int32 as SciPy's constructors do where they may be int64."""
    is_wide = INT64 in (indices.dtype, indptr.dtype) and {indices.dtype, indptr.dtype} <= {INT32, INT64}
    if not is_wide or max(extent, indices.size) > INT32_MAX:
        return indices, indptr
    if any(part.size and not 0 <= part.min() <= part.max() <= INT32_MAX for part in (indices, indptr)):
        return indices, indptr
    return indices.astype(INT32, copy=False), indptr.astype(INT32, copy=False)


def _format_of(kind: Any) -> str | None:
    """Return the format of one of SciPy's or autosparse's four classes; None for other classes."""
    twin = getattr(kind, "_twin", None)
    return _PLAIN.get(kind._plain_class if twin is not None and twin._twin is kind else kind)


def as_array(other: Any) -> Any:
    """Return a list of numbers as an array, to which SciPy's products convert it; other operands unchanged."""
    if type(other) is list:
        with contextlib.suppress(ValueError, TypeError, RuntimeError):  # rows of different lengths, or of tensors
            array = np.asarray(other)
            return array if array.dtype.char in VALUE_TYPES else other
    return other


def is_shape(shape: Any) -> bool:
    """Return whether this is a tuple of two numbers of Python's type int, none negative."""
    if type(shape) is not tuple or len(shape) != 2:
        return False
    n_rows, n_cols = shape
    return type(n_rows) is type(n_cols) is int and n_rows >= 0 and n_cols >= 0


def takes_as_is(kind: type, shape: tuple[int, ...], indptr: NDArray[Any], indices: NDArray[Any]) -> bool:
    """Return whether the constructor of the SciPy class that `kind` extends keeps the dtype of these index arrays."""
    index, other = indices.dtype, indptr.dtype
    if len(shape) != 2 or indices.ndim != 1 or (index is not other and index != other):  # `is` fails after unpickling
        return False
    if index is INT32 or index == INT32:
        return shape[0] <= INT32_MAX and shape[1] <= INT32_MAX
    return bool(index == INT64) and issubclass(kind, sps.sparray)  # matrix classes may narrow to int32


def fills(array: NDArray[Any]) -> bool:
    """Return whether the array takes at least half of the array that it is a view of; SciPy's `prune` copies others."""
    return type(array.base) is not np.ndarray or array.size >= array.base.size // 2
