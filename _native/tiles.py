"""Greedy choice of tiles by the C runtime: which operator computes each entry of a matrix."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from autosparse._native import runtime_api
from numpy.typing import NDArray

from autosparse.core.dtypes import NarrowIndex
from autosparse.core.pattern import Pattern
from autosparse.scalar import DOUBLE, NARROW_INDEX

Array = NDArray[Any]  # int32 numbers of operators, or float64 costs


def choose_tiles(
    pattern: Pattern, operators: Sequence[tuple[int, int, int, float, float]], options: Mapping[str, float]
) -> tuple[Array, Array, Array]:
    """Return (operator of each entry, (cost, iterations, tiles) of the plan, cost of each operator alone).

    `operators` are (family, r, c, cost per tile, cost per entry) as in ``tiles_api.h``; `options` are the fields of
    its asp_tile_options. Takes O(entries x operators), and the sorting of each group of rows. Raises MemoryError.
    """
    ffi, lib = runtime_api.ffi, runtime_api.lib
    given = ffi.new("asp_tile_operator[]", [tuple(one) for one in operators])
    owner = np.full(pattern.nnz, -1, dtype=NarrowIndex)
    totals, single = np.zeros(3), np.zeros(len(operators))
    code = lib.asp_plan_tiles(
        runtime_api.INDEX_CODES[pattern.index_dtype], pattern.n_rows, runtime_api.pointer(pattern.indptr),
        runtime_api.pointer(pattern.indices), given, len(operators), ffi.new("asp_tile_options *", dict(options)),
        ffi.cast(NARROW_INDEX.pointer, runtime_api.pointer(owner)),
        ffi.cast(DOUBLE.pointer, runtime_api.pointer(totals)), ffi.cast(DOUBLE.pointer, runtime_api.pointer(single)),
    )  # fmt: skip
    if code < 0:
        raise MemoryError("no memory to choose tiles")
    return owner, totals, single
