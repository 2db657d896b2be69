"""Compressed rows as C kernels read them, views and addresses of their arrays, and checks that reading is safe."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from autosparse._native import python_objects, runtime_api
from autosparse.errors import StructureError
from autosparse.scalar import PRODUCT_CODES, SCALARS

AnyArray = NDArray[Any]  # Any: value arrays may have any dtype

_INDEX_CODES: Final = {np.dtype(name).str: code for name, code in runtime_api.INDEX_CODES.items()}
NATIVE: Final = frozenset("fdFD")
"""Characters of the dtypes that have kernels."""
_STORED_CODES: Final = {row.dtype.str: row.stored_code for row in SCALARS.values() if row.stored_code >= 0}
"""Codes of the types that kernels of dtype pairs read (`pairs_api.h`), by `dtype.str`; others have a byte order of
another machine."""
_PRODUCT_CODES: Final = {np.dtype(name).str: code for name, code in PRODUCT_CODES.items()}
BUILTIN: Final = {char: np.dtype(char) for char in NATIVE}
"""NumPy's own dtype objects: unpickled arrays have equal ones, but products compare dtypes by identity."""
PART_BYTES: Final = 1 << 20
"""Maximum size in bytes of the part of a default product that a comparison holds at a time, unless a row is larger."""
_CONTIGUOUS_ALIGNED: Final = 0x101  # NPY_ARRAY_C_CONTIGUOUS | NPY_ARRAY_ALIGNED


class NativeRows:
    """Addresses, extents and dtype codes of an operand for C kernels.

    `dtype` is None where products of one dtype have no kernels. Kernels of dtype pairs may still read the values,
    unless `dtype_code` is negative.
    """

    __slots__ = ("data", "dtype", "dtype_code", "index_code", "indices", "indptr", "n_major", "n_minor")

    def __init__(
        self, n_major: int, n_minor: int, dtype: np.dtype[Any] | None = None, codes: tuple[int, int] = (-1, -1)
    ) -> None:
        self.n_major = n_major
        self.n_minor = n_minor
        self.dtype = dtype
        self.dtype_code, self.index_code = codes
        self.indptr: Any = None  # Any: cffi "void **": `rows.indptr[0]` is the present address of the array's memory
        self.indices: Any = None
        self.data: Any = None

    @property
    def is_live(self) -> bool:
        """Return whether addresses are read from the array objects; otherwise they are valid for one product only."""
        return not any(isinstance(one, tuple) or one is None for one in (self.indptr, self.indices, self.data))

    def with_values(self, values: AnyArray) -> NativeRows:
        """Return rows of the same structure and dtype with other values, which the caller keeps alive."""
        other = NativeRows(self.n_major, self.n_minor, self.dtype, (self.dtype_code, self.index_code))
        other.indptr, other.indices, other.data = self.indptr, self.indices, (runtime_api.pointer(values),)
        return other

    def part(self, indptr: AnyArray) -> NativeRows:
        """Return the consecutive rows whose starts are `indptr`, which the caller keeps alive."""
        other = NativeRows(indptr.size - 1, self.n_minor, self.dtype, (self.dtype_code, self.index_code))
        other.indptr, other.indices, other.data = (runtime_api.pointer(indptr),), self.indices, self.data
        return other


def magnitudes(values: AnyArray) -> AnyArray:
    """Return absolute values in the dtype of `values`.

    No copy is made if none is negative, since allocating pages takes longer than reading them.
    """
    if values.dtype.kind == "c":
        return np.abs(values).astype(values.dtype)
    return values if values.size and values.min() >= 0 else np.abs(values)  # NaN is not >= 0


def check_structure(indptr: AnyArray, indices: AnyArray, shape: tuple[int, int]) -> None:
    """Raise StructureError unless indptr rises from 0 and all stored indices are in [0, shape[1]).

    First lines of the messages are SciPy's.
    """
    n_rows, n_cols = shape
    if indptr.size != n_rows + 1:
        raise StructureError.indptr_size(indptr.size, wanted=n_rows + 1)
    is_plain = runtime_api.available and _is_plain(indptr, indices)
    if is_plain and runtime_api.check_structure(shape, indptr, indices) is None:
        return
    check_starts(indptr, n_rows)
    stored = indices[: int(indptr[-1])]
    if stored.size < indptr[-1]:
        raise StructureError.too_short(int(indptr[-1]), n_indices=indices.size, n_data=indices.size)
    if stored.size and stored.max() >= n_cols:
        raise StructureError.index_too_large(int(stored.max()), extent=n_cols)
    if stored.size and stored.min() < 0:
        raise StructureError.index_negative(int(stored.min()))


def check_starts(indptr: AnyArray, n_rows: int) -> None:
    """Raise StructureError unless indptr has n_rows + 1 entries that rise from 0."""
    if indptr.size != n_rows + 1:
        raise StructureError.indptr_size(indptr.size, wanted=n_rows + 1)
    if indptr[0] != 0:
        raise StructureError.first_pointer(int(indptr[0]))
    falls = np.flatnonzero(indptr[1:] < indptr[:-1])
    if falls.size:
        row = int(falls[0])
        raise StructureError.decreasing(row, start=int(indptr[row]), end=int(indptr[row + 1]))


def stored_code(dtype: np.dtype[Any]) -> int:
    """Return the code under which kernels of dtype pairs read values of this dtype; -1 where they do not."""
    return _STORED_CODES.get(dtype.str, -1)


def product_code(dtype: np.dtype[Any]) -> int | None:
    """Return the code of products of this dtype: signed and unsigned integers have the same one."""
    return _PRODUCT_CODES.get(dtype.str)


def stored_codes(indptr: Any, indices: Any, data: Any) -> tuple[int, int] | None:
    """Return the codes of value (`stored_code`) and index dtype if a C kernel accepts the arrays' layout, else None."""
    if not (_is_plain(indptr, indices) and _is_row(data)):
        return None
    return stored_code(data.dtype), _INDEX_CODES[indices.dtype.str]


def _is_plain(indptr: Any, indices: Any) -> bool:
    """Return whether a C kernel accepts the index arrays unchanged."""
    if not (_is_row(indptr) and _is_row(indices)):
        return False
    index = indptr.dtype.str
    return index in _INDEX_CODES and indices.dtype.str == index


def _is_row(array: Any) -> bool:
    return (
        isinstance(array, np.ndarray)
        and array.ndim == 1
        and array.flags.num & _CONTIGUOUS_ALIGNED == _CONTIGUOUS_ALIGNED
    )


def check_bounds(indptr: AnyArray, indices: AnyArray, data: AnyArray, shape: tuple[int, int], *, checked: bool) -> None:
    """Raise StructureError where a kernel would follow plain arrays out of bounds; `checked` skips the indices."""
    if indptr.size != shape[0] + 1:  # checked even where the structure is known: the shape may be new
        raise StructureError.indptr_size(indptr.size, wanted=shape[0] + 1)
    if indptr[-1] > min(indices.size, data.size):
        raise StructureError.too_short(int(indptr[-1]), n_indices=indices.size, n_data=data.size)
    if not checked:
        check_structure(indptr, indices, shape)


def stay_within(indptr: AnyArray, indices: AnyArray, data: AnyArray, shape: tuple[int, int]) -> bool:
    """Return whether SciPy's loops over the arrays stay within them, and within `shape`."""
    if {indptr.dtype.kind, indices.dtype.kind} - set("iub"):
        return True  # SciPy's loops refuse them
    first, last = indptr[: shape[0]], indptr[1 : shape[0] + 1]
    filled = last > first if first.size == last.size == shape[0] else None
    if filled is None or not filled.any():
        return filled is not None
    begin, end = int(first[filled].min()), int(last[filled].max())
    read = indices[max(0, begin) : end]
    is_held = begin >= 0 and end <= min(indices.size, data.size)
    return is_held and read.min() >= 0 and bool(read.max() < shape[1])


class Lease:
    """Memory of one array, lent to views that do not count as aliases of the user's array."""

    __slots__ = ("__array_interface__", "_owner")

    def __init__(self, array: AnyArray) -> None:
        interface = dict(array.__array_interface__)
        interface["data"] = (interface["data"][0], True)  # read-only: the package never writes a user's array
        self.__array_interface__ = interface
        self._owner = array


_OWNDATA: Final = 0x4


def same_memory(new: Any, old: Any) -> bool:
    """Return whether `new` is another array object over exactly `old`'s memory (SciPy's prune() makes such views)."""
    return (
        type(new) is np.ndarray
        and type(old) is np.ndarray
        and (new.flags.num ^ old.flags.num) | _OWNDATA == _OWNDATA
        and not moved(new, old)
        and new.strides == old.strides
    )


def moved(one: AnyArray, other: AnyArray) -> bool:
    """Return whether two array objects differ in address, shape or dtype."""
    address_of = runtime_api.address_of
    return bool(address_of(one) != address_of(other) or one.shape != other.shape or one.dtype != other.dtype)


def pointer_to(array: AnyArray) -> tuple[Any, bool]:
    """Return a cffi pointer to a pointer to the array's memory, and whether that pointer is the array object's own
    field.

    The object's own field stays right after a resize.
    """
    if python_objects.data_slot is None:
        return (runtime_api.pointer(array),), False
    return runtime_api.ffi.cast("void **", python_objects.data_slot(array)), True
