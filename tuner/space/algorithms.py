"""The algorithms of WACO's paper that template spaces are made for (§5.1), as the rows of operations name them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from autosparse.errors import ScheduleError
from autosparse.ops import OPS
from autosparse.ops.base import ProductKind


class Algorithm(NamedTuple):
    """What an algorithm computes, and the operation that its schedules are of."""

    operation: str
    kind: ProductKind


ALGORITHMS: Final[Mapping[str, Algorithm]] = {
    name: Algorithm(row.name, kind) for row in OPS.values() for name, kind in row.algorithms.items()
}


def algorithm_named(name: str) -> Algorithm:
    """The row of ALGORITHMS; ScheduleError when there is none."""
    if name not in ALGORITHMS:
        raise ScheduleError.not_in_space("algorithm", name, tuple(ALGORITHMS))
    return ALGORITHMS[name]
