"""Restriction of boosted trees to this library's own space: equal predictions with fewer columns.

Training reads programs of this library's space and of WACO's, and a program has the value "absent" for every parameter
of the space that it does not belong to. Products search the library's space only. So each split on another space's
parameter has a known outcome, and is replaced by the child on that side.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from autosparse.tuner.learned.codes import width
from autosparse.tuner.learned.trees import NODE, Trees
from autosparse.tuner.space.joint import SPACE, JointSpace
from autosparse.tuner.space.own import OwnSpace
from autosparse.tuner.space.template import Categorical, Parameter
from numpy.typing import NDArray

from autosparse.core.dtypes import Flag, NarrowIndex, ProgramCode, WideIndex

OWN: Final = 0
"""Position of this library's space among the spaces of a model that products read."""


def is_joint(space: JointSpace) -> bool:
    """Return whether `space` contains this library's space first, and another one."""
    return len(space.spaces) > 1 and isinstance(space.spaces[OWN], OwnSpace)


def is_own(codes: NDArray[ProgramCode], space: JointSpace) -> NDArray[Flag]:
    """Return a mask of the rows of codes whose program belongs to this library's space; all True for a single space."""
    return codes[:, 0] == OWN if is_joint(space) else np.ones(len(codes), Flag)


def own_only(space: JointSpace) -> JointSpace:
    """Return the union that contains this library's space alone."""
    return JointSpace(space.spaces[: OWN + 1])


def own_columns(space: JointSpace) -> NDArray[WideIndex]:
    """Return the columns of rows of codes in `space` that a code in `own_only(space)` has, in its order."""
    kept = {SPACE, *(f"{space.spaces[OWN].name}.{one.name}" for one in space.spaces[OWN].parameters)}
    names = [one.name for one in space.parameters for _ in range(width(one))]
    return np.flatnonzero([name in kept for name in names])


def restricted(trees: Trees, space: JointSpace) -> Trees:
    """Return trees over codes of `own_only(space)` that predict for its programs exactly what `trees` predict."""
    constant = _constants(space.parameters, space.spaces[OWN].name)
    columns = own_columns(space)
    moved = np.full(len(constant) + 1, -1)
    moved[columns] = np.arange(columns.size)
    moved[-1] = columns.size  # the analytic model's ratio follows the code
    kept: list[tuple[float, int, int, int]] = []
    nodes, change = trees.nodes.tolist(), (trees.n_sketch, constant, moved)
    roots = [_copy(nodes, root, kept, change) for root in trees.roots.tolist()]
    return Trees(np.array(kept, NODE), np.array(roots, NarrowIndex), trees.base, trees.n_sketch)


def _constants(parameters: Sequence[Parameter], own: str) -> list[int | None]:
    """Return the value of each column that is equal for all programs of the space `own`; None for other columns."""
    found: list[int | None] = []
    for one in parameters:
        if one.name == SPACE:
            found.append(OWN)
        elif one.name.startswith(f"{own}."):
            found += [None] * width(one)
        else:  # "absent" is the last value of a categorical parameter
            found += [one.size - 1 if isinstance(one, Categorical) else -1] * width(one)
    return found


def _copy(
    nodes: Sequence[Any], root: int, kept: list[tuple[float, int, int, int]], change: tuple[int, list[int | None], Any]
) -> int:
    """Append the tree at `root` to `kept` without splits on constants, parents first; return its root's position."""
    first, ahead = len(kept), [(root, -1, False)]  # (node, position of its parent, whether it is the right child)
    while ahead:
        at, parent, is_right = ahead.pop()
        at, feature = _decided(nodes, at, change)
        here = len(kept)
        if parent >= 0:
            value, left, right, split = kept[parent]
            kept[parent] = (value, left, here, split) if is_right else (value, here, right, split)
        kept.append((nodes[at][0], 0, 0, feature))
        if feature >= 0:
            ahead += [(nodes[at][2], here, True), (nodes[at][1], here, False)]
    return first


def _decided(nodes: Sequence[Any], at: int, change: tuple[int, list[int | None], Any]) -> tuple[int, int]:
    """Return the first node from `at` on that is a leaf or reads a column that is kept, and its new feature."""
    n_sketch, constant, moved = change
    while True:
        limit, left, right, feature = nodes[at]
        column = feature - n_sketch
        if column < 0:  # a leaf, or a split on the pattern
            return at, feature
        value = constant[column] if column < len(constant) else None
        if value is None:
            return at, n_sketch + int(moved[column])
        at = left if value <= limit else right
