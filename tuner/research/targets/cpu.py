"""CPU target: SuperSchedules, with splits and loops mapped to the paper's and the rest heterogeneous.

Coordinates ``x1`` (outer) and ``x0`` (inner) of i, k (columns of A) and j (dense columns) are the paper's ``x2`` and
``x1`` of i, j and k.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from autosparse.tuner.research.targets.base import Category

from autosparse.core.schedule import SuperSchedule

RENAMED: Final[Mapping[str, str]] = {"i1": "i2", "i0": "i1", "k1": "j2", "k0": "j1", "j1": "k2", "j0": "k1"}


@dataclass(frozen=True)
class Cpu:
    """Schedules of one operation on a CPU; a sample costs 1."""

    name: str = "cpu"
    sample_price: float = 1.0

    def loop_order(self, configuration: SuperSchedule) -> Sequence[str]:
        """Return the schedule's loops by the paper's names."""
        return tuple(RENAMED[name] for name in configuration.loop_order if name in RENAMED)

    def sizes(self, configuration: SuperSchedule) -> tuple[int, int, int, int]:
        """Return the split sizes of rows, columns and dense columns, and 1, in the order of SIZES."""
        form = configuration.format
        return form.split("i"), form.split("k"), max(1, configuration.dense_split("j")), 1

    def heterogeneous(self, configuration: SuperSchedule) -> Category:
        """Return level kinds, widths, row order, unrolling, prefetching, implementation and partition as a category."""
        form = configuration.format
        kinds = ",".join(level.kind.value for level in form.levels)
        return (
            kinds, form.index_bits, form.values, form.rows, form.sigma, configuration.unroll,
            configuration.prefetch, configuration.implementation, configuration.partition, configuration.chunk,
            configuration.threads,
        )  # fmt: skip
