"""Regression trees over codes of programs in the runtime; `tuner.trees` says what they are, and is the reference."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
from autosparse._native.runtime_api import ffi, lib, pointer
from numpy.typing import NDArray


class CodeTrees(Protocol):
    """`tuner.trees.Trees` without splits on a sketch."""

    @property
    def nodes(self) -> NDArray[Any]:
        """Of `tuner.trees.NODE`."""

    @property
    def roots(self) -> NDArray[np.int32]:
        """Where each tree begins."""

    @property
    def base(self) -> float:
        """What is added to the leaves."""

    @property
    def n_sketch(self) -> int:
        """0."""


def predicted(trees: CodeTrees, rows: NDArray[np.int16], ids: NDArray[np.int32] | None = None) -> NDArray[np.float32]:
    """The sum of `trees` for the codes `rows` (n, columns), or for those of numbers `ids`: (n,) or (ids.size,).

    ValueError for trees that ask for a sketch, or for columns that there are none of.
    """
    if trees.n_sketch or int(trees.nodes["feature"].max(initial=-1)) >= rows.shape[1]:
        raise ValueError(f"trees over a sketch of {trees.n_sketch} numbers and more than {rows.shape[1]} columns")
    rows = np.ascontiguousarray(rows, np.int16)
    kept = None if ids is None else np.ascontiguousarray(ids, np.int32)
    n = len(rows) if kept is None else kept.size
    out = np.empty(n, np.float32)
    which = ffi.NULL if kept is None else ffi.cast("int32_t *", pointer(kept))
    lib.asp_trees_predict(
        n, which, ffi.cast("int16_t *", pointer(rows)), rows.shape[1], trees.roots.size,
        ffi.cast("int32_t *", pointer(trees.roots)), ffi.cast("asp_tree_node *", pointer(trees.nodes)), trees.base,
        ffi.cast("float *", pointer(out)),
    )  # fmt: skip
    return out
