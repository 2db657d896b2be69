"""A GPU as a target, as DASH describes SparseTIR's schedules (Table 1, §3.3): cut loops, their order, binding, unroll.

Mapping only: no program of ours runs such a configuration, so that there is no figure of it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from autosparse.tuner.targets.base import Category

RENAMED: Final[Mapping[str, str]] = {"i1": "i1", "i2": "i2", "j": "j2", "k1": "k1", "k2": "k2", "k3": "k3"}
"""The loop over columns of A is not cut: its inner part is absent and follows it."""


@dataclass(frozen=True, slots=True)
class GpuConfiguration:
    """Loops i1, i2, j, k1, k2, k3, outermost first; sizes of rows and of both inner cuts of the dense columns."""

    order: tuple[str, ...]
    rows: int
    dense: int
    dense_third: int
    binding: str  # what blocks and threads are bound to
    unroll: int


@dataclass(frozen=True)
class Gpu:
    """Configurations of a GPU."""

    name: str = "gpu"
    sample_price: float = 1.0

    def loop_order(self, configuration: GpuConfiguration) -> Sequence[str]:
        """The loops by the paper's common names."""
        return tuple(RENAMED[name] for name in configuration.order)

    def sizes(self, configuration: GpuConfiguration) -> tuple[int, int, int, int]:
        """(rows, 1, dense, third factor)."""
        return configuration.rows, 1, configuration.dense, configuration.dense_third

    def heterogeneous(self, configuration: GpuConfiguration) -> Category:
        """(binding, unroll)."""
        return configuration.binding, configuration.unroll
