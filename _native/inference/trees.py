"""Prediction by regression trees in the C runtime; `autosparse.tuner.learned.trees` defines the trees."""

from __future__ import annotations

from typing import Any

import numpy as np
from autosparse._native.runtime_api import ffi, lib, pointer
from numpy.typing import NDArray

Ints = NDArray[np.int32]


def predicted(
    nodes: NDArray[Any], roots: Ints, base: float, rows: NDArray[np.int16], ids: Ints | None = None
) -> NDArray[np.float32]:
    """Return `base` plus the sum of the trees for the codes `rows` (n, columns), or for rows `ids` of these: (n,)
    float32.

    Raises ValueError if the trees use more columns than `rows` has.
    """
    if int(nodes["feature"].max(initial=-1)) >= rows.shape[1]:
        raise ValueError(f"trees over more than {rows.shape[1]} columns")
    rows = np.ascontiguousarray(rows, np.int16)
    kept = None if ids is None else np.ascontiguousarray(ids, np.int32)
    n = len(rows) if kept is None else kept.size
    out = np.empty(n, np.float32)
    which = ffi.NULL if kept is None else ffi.cast("int32_t *", pointer(kept))
    lib.asp_trees_predict(
        n, which, ffi.cast("int16_t *", pointer(rows)), rows.shape[1], roots.size,
        ffi.cast("int32_t *", pointer(roots)), ffi.cast("asp_tree_node *", pointer(nodes)), base,
        ffi.cast("float *", pointer(out)),
    )  # fmt: skip
    return out


def decided(nodes: NDArray[Any], roots: Ints, sketch: NDArray[np.float32]) -> tuple[NDArray[Any], Ints]:
    """Return the nodes and roots of trees over codes alone that give the same sums for this sketch, without
    unreachable nodes.
    """
    n, numbers = len(nodes), np.ascontiguousarray(sketch, np.float32)
    left, starts, target = np.empty_like(nodes), np.empty_like(roots), np.empty(n, np.int32)
    n_kept = lib.asp_trees_decide(
        n, ffi.cast("asp_tree_node *", pointer(nodes)), starts.size, ffi.cast("int32_t *", pointer(roots)),
        ffi.cast("float *", pointer(numbers)), numbers.size, ffi.cast("int32_t *", pointer(target)),
        ffi.cast("asp_tree_node *", pointer(left)), ffi.cast("int32_t *", pointer(starts)),
    )  # fmt: skip
    return left[:n_kept], starts
