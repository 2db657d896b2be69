"""Sums of regression trees (Friedman, Ann. Statist. 29, 2001) over a pattern's sketch and a program's code.

Thousands of programs are scored on one pattern. `Trees.on` therefore evaluates all splits on the sketch once, which
leaves small trees over codes. The runtime implements both.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import numpy as np
from autosparse._native.inference import trees as native
from numpy.typing import NDArray

from autosparse.core.dtypes import Byte, NarrowIndex, NarrowReal, ProgramCode, Real
from autosparse.core.values import dataclass, field

Floats = NDArray[NarrowReal]
Codes = NDArray[ProgramCode]

NODE: Final = np.dtype([("at", NarrowReal), *((name, NarrowIndex) for name in ("left", "right", "feature"))])
"""Record of a node: a split sends ``x[feature] <= at`` to the left; a leaf has feature -1 and adds `at`."""
NAMES: Final = ("trees.at", "trees.left", "trees.right", "trees.feature", "trees.roots", "trees.base")


@dataclass(frozen=True, eq=False)
class Trees:
    """Regression trees: `base` plus one leaf per tree. Features: `n_sketch` numbers of the pattern, then the code."""

    nodes: NDArray[Any] = field(repr=False)  # array of NODE, all trees concatenated
    roots: NDArray[NarrowIndex] = field(repr=False)
    base: float
    n_sketch: int

    def __post_init__(self) -> None:
        reason = self._reason_broken()
        if reason:
            raise ValueError(f"no regression trees: {reason}")

    def _reason_broken(self) -> str | None:
        n = len(self.nodes)
        for name in ("left", "right"):
            children = self.nodes[name]
            is_split = self.nodes["feature"] >= 0
            if np.any(is_split & ((children <= np.arange(n)) | (children >= n))):
                # Children follow their parent, so that every walk ends
                return f"a {name} child outside the {n} nodes behind its parent"
        if self.roots.size and (self.roots.min() < 0 or self.roots.max() >= n):
            return f"roots {self.roots.min()} .. {self.roots.max()} of {n} nodes"
        return None

    @classmethod
    def of(cls, tensors: Mapping[str, NDArray[Any]], n_sketch: int) -> Trees:
        """Build from `tensors`; raise ValueError or KeyError when they are not trees."""
        at, left, right, feature, roots, base = (tensors[name] for name in NAMES)
        if not at.shape == left.shape == right.shape == feature.shape or base.shape != (1,):
            raise ValueError(f"no regression trees: arrays of {at.shape}, {left.shape}, {right.shape}, {feature.shape}")
        if left.dtype == right.dtype == Byte:  # distances from their parents
            left, right = (np.where(feature >= 0, one + np.arange(one.size), 0) for one in (left, right))
        nodes = np.empty(at.shape, NODE)
        for name, values in (("at", at), ("left", left), ("right", right), ("feature", feature)):
            nodes[name] = values
        return cls(nodes, np.asarray(roots, NarrowIndex), float(base[0]), n_sketch)

    def tensors(self) -> dict[str, NDArray[Any]]:
        """Return the trees as arrays for a file; children are uint8 distances from parents if all fit, else int32."""
        nodes, children = self.nodes, [self.nodes["left"], self.nodes["right"]]
        distances = [np.where(nodes["feature"] >= 0, one - np.arange(len(nodes)), 0) for one in children]
        if all(one.max(initial=0) <= np.iinfo(Byte).max for one in distances):
            children = [one.astype(Byte) for one in distances]
        parts = (nodes["at"], *children, nodes["feature"].astype(ProgramCode), self.roots)
        return dict(zip(NAMES, (*map(np.ascontiguousarray, parts), np.array([self.base], NarrowReal)), strict=True))

    def joined(self, other: Trees) -> Trees:
        """Return trees that predict the sum of the predictions of both."""
        shifted = other.nodes.copy()
        is_split = shifted["feature"] >= 0
        for name in ("left", "right"):
            shifted[name][is_split] += len(self.nodes)
        roots = np.concatenate([self.roots, other.roots + len(self.nodes)]).astype(NarrowIndex)
        return Trees(np.concatenate([self.nodes, shifted]), roots, self.base + other.base, self.n_sketch)

    def scaled(self, slope: float) -> Trees:
        """Return trees that predict `slope` times the present prediction."""
        nodes = self.nodes.copy()
        nodes["at"][nodes["feature"] < 0] *= NarrowReal(slope)
        return Trees(nodes, self.roots, self.base * slope, self.n_sketch)

    def on(self, sketch: Floats) -> Trees:
        """Return the trees over codes that remain for a pattern with this sketch; ValueError for another length."""
        if sketch.shape != (self.n_sketch,):
            raise ValueError(f"a sketch of shape {sketch.shape} for trees over {self.n_sketch} numbers")
        nodes, roots = native.decided(self.nodes, self.roots, sketch)
        made = object.__new__(Trees)  # built from valid nodes, so the check is skipped
        for name, value in (("nodes", nodes), ("roots", roots), ("base", self.base), ("n_sketch", 0)):
            object.__setattr__(made, name, value)
        return made

    def of_codes(self, rows: Codes, ids: NDArray[NarrowIndex] | None = None) -> Floats:
        """Return the prediction for each row of codes, or for rows `ids`; ValueError for trees over a sketch."""
        if self.n_sketch:
            raise ValueError(f"trees over a sketch of {self.n_sketch} numbers")
        return native.predicted(self.nodes, self.roots, self.base, rows, ids)

    def predict(self, x: NDArray[np.floating[Any]] | Codes) -> Floats:
        """Return the prediction for each row of features, (n, n_sketch + columns), computed by NumPy."""
        total = np.full(len(x), self.base, Real)
        places = np.arange(len(x))
        for root in self.roots.tolist():
            at = np.full(len(x), root)
            while np.any((split := self.nodes["feature"][at]) >= 0):
                goes_left = x[places, np.maximum(split, 0)] <= self.nodes["at"][at]
                further = np.where(goes_left, self.nodes["left"][at], self.nodes["right"][at])
                at = np.where(split >= 0, further, at)
            total += self.nodes["at"][at]
        return total.astype(NarrowReal)
