"""Learned correction of the analytic cost model: a linear function of its terms and of a schedule's parameters.

log seconds = log(analytic seconds) + theta . phi, where phi has the analytic model's terms relative to their total, the
layout of the first part, the block's parameters, and each term of each layout. It is fitted to ratios of candidates of
one product, so only differences between schedules matter (`research.transfer.device`, `benchmarks/transfer.py --gpu`).
"""

from __future__ import annotations

import functools
import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from autosparse.tuner.gpu.facts import DevicePattern
from autosparse.tuner.gpu.model import ProductSizes, predicted_s, roofs, work_of

from autosparse.gpu.schedule import DeviceSchedule
from autosparse.gpu.target import DeviceTarget
from autosparse.targets import priors

WEIGHTS: Final = Path(priors.__file__).with_name("gpu_correction.json")
LAYOUTS: Final = ("rows", "unrolled", "ell", "segments", "entries", "windows", "blocks")
"""Layouts of the first part, in the order of their features; the layout of other kinds of product has none."""
MIN_LOG: Final = 1e-6
"""Minimum of a term relative to the total, before its logarithm."""
RERANKED: Final = 8
"""Number of the analytic model's favourites that the correction reorders: as many as its samples have of a product."""


def features(
    pattern: DevicePattern, schedule: DeviceSchedule, product: ProductSizes, target: DeviceTarget
) -> tuple[float, list[float]]:
    """Return the logarithm of the analytic model's seconds, and phi."""
    seconds = predicted_s(pattern, schedule, product, target)
    work = work_of(pattern, schedule, product, target)
    waits_s = work.waits * target.latency_s / target.n_sms
    times = (*roofs(work, product, schedule, target), waits_s, work.longest * target.latency_s)
    terms = [math.log(max(one / seconds, MIN_LOG)) for one in times]
    first = schedule.parts[0]
    parameters = [
        math.log2(first.rows), math.log2(first.step), math.log2(max(1, schedule.tile)), math.log2(schedule.warps),
        math.log2(schedule.vector), schedule.registers / 64, float(schedule.stages),
        float(sum(part.layout != "fill" for part in schedule.parts)), float(schedule.shares_rows),
        math.log2(1 + first.split), math.log(max(work.tasks, 1.0)),
    ]  # fmt: skip
    is_layout = [float(first.layout == name) for name in LAYOUTS]
    crossed = [here * term for here in is_layout for term in terms]
    return math.log(seconds), [*terms, *is_layout, *parameters, *crossed]


@dataclass(frozen=True, slots=True)
class Correction:
    """Weights theta, and the products in whose samples they were fitted."""

    weights: tuple[float, ...]
    targets: tuple[str, ...] = ()
    dtypes: tuple[str, ...] = ()
    columns: tuple[int, int] = (1, 1 << 30)

    def covers(self, schedule: DeviceSchedule, product: ProductSizes, target: DeviceTarget) -> bool:
        """Return whether the samples had such a product: device, dtype, precision, and number of columns."""
        low, high = self.columns
        is_known = target.name in self.targets and product.dtype in self.dtypes and schedule.precision == "ieee"
        return is_known and low <= product.n_dense_cols <= high

    def log_seconds(
        self, pattern: DevicePattern, schedule: DeviceSchedule, product: ProductSizes, target: DeviceTarget
    ) -> float:
        """Return the corrected logarithm of the seconds, up to a constant for each product."""
        base, phi = features(pattern, schedule, product, target)
        return base + sum(weight * one for weight, one in zip(self.weights, phi, strict=True))


@functools.cache
def corrections() -> dict[str, Correction]:
    """Return the shipped corrections by operation."""
    found: dict[str, Any] = json.loads(WEIGHTS.read_text(encoding="utf-8"))["operations"]  # Any: JSON
    return {
        name: Correction(
            tuple(one["weights"]), tuple(one["targets"]), tuple(one["dtypes"]), (one["columns"][0], one["columns"][1])
        )
        for name, one in found.items()
    }


def reordered(
    offered: Sequence[tuple[str, DeviceSchedule]], pattern: DevicePattern, product: ProductSizes, target: DeviceTarget
) -> list[tuple[str, DeviceSchedule]]:
    """Return `offered`, best first by the analytic model, with its first single layouts in the corrected order.

    Only RERANKED schedules change places, because samples have the analytic model's favourites. Composites, schedules
    with panels, and products that no correction covers keep their places.
    """
    found = list(offered)
    known = corrections().get(found[0][1].operation) if found else None
    if known is None or not known.covers(found[0][1], product, target):
        return found
    plain = [at for at, (_, one) in enumerate(found) if not one.panel and not one.is_composite][:RERANKED]
    best = sorted(plain, key=lambda at: known.log_seconds(pattern, found[at][1], product, target))
    for place, at in zip(plain, best, strict=True):
        found[place] = offered[at]
    return found
