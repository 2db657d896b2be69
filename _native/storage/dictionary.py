"""Dictionary encoding of values (CSR-VI; Kourtis, Goumas, Koziris 2008): each value is stored as a one-byte index into
a table.

The table has TABLE entries, so that two 64-byte registers hold it and decoding takes one permutation. Values are
distinguished by their bits, so products use exactly the user's values. Entry 0 is zero, the value of padding.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np
from autosparse._native import memory, runtime_api
from numpy.typing import NDArray

from autosparse.core.dtypes import Byte
from autosparse.errors import PackError
from autosparse.scalar import REAL

if TYPE_CHECKING:
    from autosparse.core.formats import Format

Array = NDArray[Any]  # float32 or float64; numbers: uint8

TABLE: Final = 16
"""Number of entries of the table, of which zero takes one."""
DTYPES: Final = REAL
ENCODED: Final = 4
"""Code of indices of a table as values that slices are filled with, beside `runtime_api.DTYPE_CODES`."""
N_LOOKED_AT: Final = 1024
"""Sample size of the test that rejects most matrices with too many distinct values."""


def encoded(values: Array, fmt: Format) -> tuple[Array, Array]:
    """Return the index of each of `values` (uint8) and the table (TABLE,).

    Raises PackError if there are too many values; O(n).
    """
    if values.dtype.name not in DTYPES:
        raise PackError.unfit(fmt, f"values of {values.dtype.name} are not numbered, only {' and '.join(DTYPES)} are")
    found = numbered(np.ascontiguousarray(values))
    if found is None:
        raise PackError.unfit(fmt, f"more than {TABLE - 1} different values: a table of {TABLE} does not hold them")
    return found


def numbered(values: Array, room_bytes: int = 0) -> tuple[Array, Array] | None:
    """Return the index of each of `values` (uint8) and the table (TABLE,); None if it cannot hold them.

    The indices are in scratch memory of at least `room_bytes`.
    """
    room = memory.empty_scratch((max(values.size, room_bytes),), np.dtype(Byte))
    numbers, table = room[: values.size], np.empty(TABLE, values.dtype)
    return (numbers, table) if number_values(values, table, runtime_api.pointer(numbers)) >= 0 else None


def has_few_kinds(values: Array) -> bool:
    """Return whether a table holds all `values`. A sample rejects most matrices; otherwise this takes O(n)."""
    if values.dtype.name not in DTYPES:
        return False
    table = np.empty(TABLE, values.dtype)
    step = max(1, values.size // N_LOOKED_AT)
    parts = (np.ascontiguousarray(part) for part in (values[::step][:N_LOOKED_AT], values))
    return all(number_values(part, table, runtime_api.ffi.NULL) >= 0 for part in parts)


def number_values(values: Array, table: Array, numbers: Any) -> int:  # a C pointer
    """Write the table of different values and, unless NULL, the index of each; return -1 if it cannot hold them."""
    dtype, pointer = runtime_api.DTYPE_CODES[values.dtype.name], runtime_api.pointer
    return int(runtime_api.lib.asp_number_values(dtype, values.size, pointer(values), pointer(table), numbers))
