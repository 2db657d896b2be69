"""CPU and GPU as targets: their schedules, with loops and sizes on the paper's axes and the rest heterogeneous.

On a CPU, coordinates ``x1`` (outer) and ``x0`` (inner) of i, k (columns of A) and j (dense columns) are the paper's
``x2`` and ``x1`` of i, j and k. On a GPU, a program computes `rows` rows (or entries) by `step` entries by `tile`
columns at once (`autosparse.gpu.schedule`). The first part stands for a schedule of several parts; the layouts of all
parts belong to the heterogeneous parameters.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from autosparse.tuner.research.targets.base import Category

from autosparse.core.schedule import SuperSchedule
from autosparse.gpu.schedule import DeviceSchedule, GpuPart

ROWWISE: Final = ("i2", "k2", "j2", "i1", "j1", "k1", "k3")
"""Loops of a block of rows, steps and columns that one program holds at once."""
LOOPS_OF_LAYOUT: Final[Mapping[str, tuple[str, ...]]] = {
    "unrolled": ("i2", "k2", "j2", "j1", "i1", "k1", "k3"),  # the entries of a step follow one another
    "segments": ("j2", "k2", "j1", "k1", "k3"),  # runs of entries, whatever rows they are of
    "entries": ("j2", "k2", "j1", "k1", "k3"),
}
"""Loops by layout, outermost first, where they differ from ROWWISE; absent loops follow their parents (`mapper`)."""


@dataclass(frozen=True)
class Gpu:
    """Device schedules of one operation on a GPU."""

    name: str = "gpu"

    def loop_order(self, configuration: DeviceSchedule) -> Sequence[str]:
        """Return the loops, outermost first: column tiles outside for panels, inside the entries for sampled products.

        A product with a vector has no loops over columns.
        """
        order = list(LOOPS_OF_LAYOUT.get(configuration.parts[0].layout, ROWWISE))
        if configuration.is_vector:
            return [name for name in order if not name.startswith("k")]
        if configuration.panel or configuration.is_sampled:
            order.remove("k2")
            order.insert(0 if configuration.panel else order.index("j2") + 1, "k2")
        return order

    def sizes(self, configuration: DeviceSchedule) -> tuple[int, int, int, int]:
        """Return (rows, entries, columns, elements per load) of one program's block, in the order of SIZES."""
        first = configuration.parts[0]
        return first.rows, first.step, max(1, configuration.tile), configuration.vector

    def heterogeneous(self, configuration: DeviceSchedule) -> Category:
        """Return the layouts, warps, stages, registers, precision and limits of the first part."""
        first = configuration.parts[0]
        return (
            "+".join(_words(part) for part in configuration.parts if part.layout != "fill"), configuration.warps,
            configuration.stages, configuration.registers, configuration.precision,
            first.split, first.at_least,
        )  # fmt: skip


def _words(part: GpuPart) -> str:
    """Return the layout of a part, and its longest row where it has one."""
    return f"{part.layout}{part.at_most or ''}"


RENAMED: Final[Mapping[str, str]] = {"i1": "i2", "i0": "i1", "k1": "j2", "k0": "j1", "j1": "k2", "j0": "k1"}


@dataclass(frozen=True)
class Cpu:
    """Schedules of one operation on a CPU."""

    name: str = "cpu"

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
