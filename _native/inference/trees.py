"""Prediction by regression trees in the C runtime; `autosparse.tuner.learned.trees` defines the trees."""

from __future__ import annotations

from typing import Any

import numpy as np
from autosparse._native.runtime_api import ffi, lib, pointer
from numpy.typing import NDArray

from autosparse.core.dtypes import NarrowIndex, NarrowReal, ProgramCode
from autosparse.scalar import NARROW_INDEX, PROGRAM_CODE, SINGLE

Ints = NDArray[NarrowIndex]


def predicted(
    nodes: NDArray[Any], roots: Ints, base: float, rows: NDArray[ProgramCode], ids: Ints | None = None
) -> NDArray[NarrowReal]:
    """Return `base` plus the sum of the trees for the codes `rows` (n, columns), or for rows `ids` of these: (n,)
    float32.

    Raises ValueError if the trees use more columns than `rows` has.
    """
    if int(nodes["feature"].max(initial=-1)) >= rows.shape[1]:
        raise ValueError(f"trees over more than {rows.shape[1]} columns")
    rows = np.ascontiguousarray(rows, ProgramCode)
    kept = None if ids is None else np.ascontiguousarray(ids, NarrowIndex)
    n = len(rows) if kept is None else kept.size
    out = np.empty(n, NarrowReal)
    which = ffi.NULL if kept is None else ffi.cast(NARROW_INDEX.pointer, pointer(kept))
    lib.asp_trees_predict(
        n, which, ffi.cast(PROGRAM_CODE.pointer, pointer(rows)), rows.shape[1], roots.size,
        ffi.cast(NARROW_INDEX.pointer, pointer(roots)), ffi.cast("asp_tree_node *", pointer(nodes)), base,
        ffi.cast(SINGLE.pointer, pointer(out)),
    )  # fmt: skip
    return out


def decided(nodes: NDArray[Any], roots: Ints, sketch: NDArray[NarrowReal]) -> tuple[NDArray[Any], Ints]:
    """Return (nodes, roots) of the trees with decisions on `sketch` resolved, so that they depend on codes alone.

    They give the same sums, without unreachable nodes.
    """
    n, numbers = len(nodes), np.ascontiguousarray(sketch, NarrowReal)
    left, starts, target = np.empty_like(nodes), np.empty_like(roots), np.empty(n, NarrowIndex)
    n_kept = lib.asp_trees_decide(
        n, ffi.cast("asp_tree_node *", pointer(nodes)), starts.size, ffi.cast(NARROW_INDEX.pointer, pointer(roots)),
        ffi.cast(SINGLE.pointer, pointer(numbers)), numbers.size, ffi.cast(NARROW_INDEX.pointer, pointer(target)),
        ffi.cast("asp_tree_node *", pointer(left)), ffi.cast(NARROW_INDEX.pointer, pointer(starts)),
    )  # fmt: skip
    return left[:n_kept], starts
