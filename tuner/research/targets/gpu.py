"""GPU target, as DASH describes SparseTIR's schedules (Table 1, section 3.3): split loops, order, binding, unroll.

Only the mapping exists; the library runs no such configuration and has no measurements of one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from autosparse.tuner.research.targets.base import Category

RENAMED: Final[Mapping[str, str]] = {"i1": "i1", "i2": "i2", "j": "j2", "k1": "k1", "k2": "k2", "k3": "k3"}
"""Name of each loop in the paper. The loop over columns of A is not split, so its inner part is absent."""


@dataclass(frozen=True, slots=True)
class GpuConfiguration:
    """Configuration of a GPU program: loop order, sizes of row and dense splits, thread binding, unrolling."""

    order: tuple[str, ...]
    rows: int
    dense: int
    dense_third: int
    binding: str  # binding of loops to blocks and threads
    unroll: int


@dataclass(frozen=True)
class Gpu:
    """Configurations of a GPU."""

    name: str = "gpu"
    sample_price: float = 1.0

    def loop_order(self, configuration: GpuConfiguration) -> Sequence[str]:
        """Return the loops by the paper's common names."""
        return tuple(RENAMED[name] for name in configuration.order)

    def sizes(self, configuration: GpuConfiguration) -> tuple[int, int, int, int]:
        """Return the sizes (rows, 1, dense, third factor), in the order of SIZES."""
        return configuration.rows, 1, configuration.dense, configuration.dense_third

    def heterogeneous(self, configuration: GpuConfiguration) -> Category:
        """Return the values of the parameters that only GPUs have: (binding, unroll)."""
        return configuration.binding, configuration.unroll
