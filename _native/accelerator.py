"""Simulated accelerator: exact counts of cache misses and the resulting cycles, by the C runtime."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np
from autosparse._native.runtime_api import ffi, lib, pointer, raise_for
from numpy.typing import NDArray

from autosparse.core.dtypes import NarrowIndex
from autosparse.core.pattern import Pattern
from autosparse.scalar import NARROW_INDEX

MACHINE: Final = (
    "n_pes", "lanes", "l1_bytes", "llc_bytes", "barrier_cycles", "tile_cycles", "port_width", "llc_width", "dram_width"
)  # fmt: skip
OPERATION: Final = (
    "n_columns", "row_vectors", "first_moves", "later_moves", "first_entry_bytes", "later_entry_bytes"
)  # fmt: skip
TILING: Final = ("p_row", "p_col", "split", "barrier", "bypass")
COUNTS: Final = ("dram_bytes", "llc_bytes", "port_bytes", "l1_misses", "llc_misses", "vectors", "n_tiles")

Numbers = Mapping[str, float]


def accelerate(
    pattern: Pattern, order: NDArray[NarrowIndex], *, machine: Numbers, operation: Numbers, tiling: Numbers
) -> tuple[float, dict[str, int]]:
    """Return (cycles, counts) of one product with the rows in `order`; counts are named by `COUNTS`.

    The mappings hold the fields named by `MACHINE`, `OPERATION` and `TILING`. Columns must ascend in every row. Raises
    ValueError if a number of the machine or the tiling is not positive, and MemoryError.
    """
    indptr = np.ascontiguousarray(pattern.indptr, NarrowIndex)
    indices = np.ascontiguousarray(pattern.indices, NarrowIndex)
    if order.shape != (pattern.n_rows,) or order.dtype != NarrowIndex:
        raise ValueError(f"order {order.dtype} {order.shape} for {pattern.n_rows} rows")
    structs = [
        ffi.new(f"struct {kind} *", {name: values[name] for name in fields})
        for kind, fields, values in (
            ("asp_accelerator", MACHINE, machine), ("asp_accelerated", OPERATION, operation),
            ("asp_tiling", TILING, tiling),
        )
    ]  # fmt: skip
    found = ffi.new("struct asp_traffic *")
    arrays = [
        ffi.cast(NARROW_INDEX.pointer, pointer(array)) for array in (indptr, indices, np.ascontiguousarray(order))
    ]
    raise_for(lib.asp_accelerate(*structs, pattern.n_rows, pattern.n_cols, *arrays, found))
    return float(found.cycles), {name: int(getattr(found, name)) for name in COUNTS}
