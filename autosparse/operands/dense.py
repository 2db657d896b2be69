"""Dense operands in the layout of kernels: rows of adjacent entries. Other layouts are copied by rows."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from autosparse._native import memory, runtime_api

AnyArray = NDArray[Any]  # Any: one native dtype


def has_rows(array: AnyArray) -> bool:
    """Return whether a 2-D array's rows can be read in place: adjacent entries, rows whole entries apart, forwards."""
    itemsize, (row_step, step) = array.itemsize, array.strides
    adjacent = array.shape[1] <= 1 or step == itemsize
    apart = array.shape[0] <= 1 or (row_step >= 0 and row_step % itemsize == 0)
    return bool(adjacent and apart and array.flags.aligned)


def row_step(array: AnyArray) -> int:
    """Return the number of entries from one row to the next."""
    return array.strides[0] // array.itemsize if array.shape[0] > 1 else array.shape[1]


def by_rows(array: AnyArray, *, threads: int = 0) -> AnyArray:
    """Return the 2-D `array` if its rows can be read in place, else a row-major copy made by several threads.

    Any strides are accepted. Copying an array with adjacent columns transposes it in memory, at memory bandwidth.
    """
    if has_rows(array):
        return array
    itemsize, steps = array.itemsize, array.strides
    if itemsize not in (4, 8, 16) or not array.flags.aligned or any(step % itemsize for step in steps):
        return np.array(array, order="C")  # contiguous arrays may be unaligned, so always copy
    copy = memory.empty_output(array.shape, array.dtype)
    status = runtime_api.lib.asp_dense_rows(
        itemsize, *array.shape, runtime_api.pointer(array), *(step // itemsize for step in steps),
        runtime_api.pointer(copy), copy.shape[1], threads,
    )  # fmt: skip
    runtime_api.raise_for(status)
    return copy
