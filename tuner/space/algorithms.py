"""Algorithms of the WACO paper that template spaces are made for (section 5.1), named as in the rows of operations."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from autosparse.errors import ScheduleError
from autosparse.ops import OPS
from autosparse.ops.base import ProductKind


class Algorithm(NamedTuple):
    """Row of ALGORITHMS: kind of product, and operation of the schedules, of one algorithm (SpMV, SpMM, ...)."""

    operation: str
    kind: ProductKind


ALGORITHMS: Final[Mapping[str, Algorithm]] = {
    name: Algorithm(row.name, kind) for row in OPS.values() for name, kind in row.tuning.algorithms.items()
}


def algorithm_named(name: str) -> Algorithm:
    """Return the row of ALGORITHMS; raise ScheduleError when there is none."""
    if name not in ALGORITHMS:
        raise ScheduleError.not_in_space("algorithm", name, tuple(ALGORITHMS))
    return ALGORITHMS[name]
