"""Mapper of every target's configurations to the same 53 numbers: loop order and four sizes (DASH 3.3, Table 5).

p = (7 x 7 permutation matrix of the loop at each position; log2 of the sizes I, J, K, K3).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final, TypeVar

import numpy as np
from autosparse.tuner.research.targets.base import LOOPS, PARENTS, SIZES, TargetSpace
from numpy.typing import NDArray

from autosparse.core.dtypes import NarrowReal
from autosparse.errors import RecordError

MAPPED_WIDTH: Final = len(LOOPS) ** 2 + len(SIZES)

Configured = TypeVar("Configured")


def whole_order(order: Sequence[str]) -> tuple[str, ...]:
    """Return `order` with each missing loop of LOOPS inserted after its parent; raise RecordError for unknown loops."""
    placed = list(order)
    strange = [name for name in placed if name not in LOOPS]
    if strange or len(set(placed)) != len(placed):
        raise RecordError.bad_field("target", "loop_order", placed, expected=f"each at most once of {LOOPS}")
    for name in ("i2", "j2", "k2", *PARENTS):
        if name in placed:
            continue
        parent = PARENTS.get(name)
        at = placed.index(parent) + 1 if parent in placed else len(placed)
        placed.insert(at, name)
    return tuple(placed)


def mapped(target: TargetSpace[Configured], configurations: Sequence[Configured]) -> NDArray[NarrowReal]:
    """Return features that all platforms share, (n, MAPPED_WIDTH): one-hot loop orders and log2 of the sizes."""
    n_loops = len(LOOPS)
    found = np.zeros((len(configurations), MAPPED_WIDTH), NarrowReal)
    for row, one in zip(found, configurations, strict=True):
        for place, name in enumerate(whole_order(target.loop_order(one))):
            row[place * n_loops + LOOPS.index(name)] = 1
        row[n_loops**2 :] = [math.log2(size) for size in target.sizes(one)]
    return found
