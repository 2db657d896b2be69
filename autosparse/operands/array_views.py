"""Read-only views of the user's arrays for the package's own code, and comparison of the memory of array objects."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from autosparse._native import python_objects, runtime_api
from autosparse.core.dtypes import WideIndex

AnyArray = NDArray[Any]  # Any: value arrays may have any dtype


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


def structure_sample(operand: Any) -> bytes:  # Any: an Operand, whose module imports this one
    """Return the shape and samples of the structure as bytes, which distinguish most patterns in microseconds."""
    nnz = operand.nnz
    picks = np.linspace(0, max(nnz - 1, 0), 64).astype(WideIndex)
    starts = np.linspace(0, operand.n_major, 17).astype(WideIndex)
    facts: bytes = np.array([operand.n_major, operand.n_minor, nnz], dtype=WideIndex).tobytes()
    facts += operand.indptr[starts].astype(WideIndex).tobytes()
    columns: bytes = operand.indices[picks].astype(WideIndex).tobytes() if nnz else b""
    return facts + columns
