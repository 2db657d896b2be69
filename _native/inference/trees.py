"""Regression trees over codes of programs in the runtime; `tuner.trees` says what they are, and is the reference."""

from __future__ import annotations

from typing import Any, Protocol, TypeVar

import numpy as np
from autosparse._native.runtime_api import ffi, lib, pointer
from numpy.typing import NDArray


class CodeTrees(Protocol):
    """`tuner.trees.Trees`."""

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
        """Numbers of a pattern that splits look at; 0: they look at codes alone."""


class DecidableTrees(CodeTrees, Protocol):
    """Trees that can be made of parts of themselves."""

    def checked(self: T, nodes: NDArray[Any], roots: NDArray[np.int32]) -> T:
        """Trees over codes of these nodes, which are known to be sound."""


T = TypeVar("T", bound=DecidableTrees)


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


def decided(trees: T, sketch: NDArray[np.float32]) -> T:
    """The same sum for one pattern, as trees over codes alone: `Trees.on`, without what no tree reaches any more.

    ValueError for a sketch of another length.
    """
    if sketch.shape != (trees.n_sketch,):
        raise ValueError(f"a sketch of shape {sketch.shape} for trees over {trees.n_sketch} numbers")
    n, numbers = len(trees.nodes), np.ascontiguousarray(sketch, np.float32)
    nodes, roots, target = np.empty_like(trees.nodes), np.empty_like(trees.roots), np.empty(n, np.int32)
    n_kept = lib.asp_trees_decide(
        n, ffi.cast("asp_tree_node *", pointer(trees.nodes)), roots.size, ffi.cast("int32_t *", pointer(trees.roots)),
        ffi.cast("float *", pointer(numbers)), numbers.size, ffi.cast("int32_t *", pointer(target)),
        ffi.cast("asp_tree_node *", pointer(nodes)), ffi.cast("int32_t *", pointer(roots)),
    )  # fmt: skip
    return trees.checked(nodes[:n_kept], roots)
