"""Fit the scale of a learned model on measurements: what a difference of costs means in time."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

import numpy as np
from autosparse.tuner.collect.files import MEASURED, Measurements
from autosparse.tuner.learned import Scale
from numpy.typing import NDArray

from autosparse.errors import RecordError
from autosparse.schedule import SuperSchedule

Costs = Callable[[Measurements, list[SuperSchedule]], NDArray[np.floating]]
"""Costs that a model gives to schedules on the pattern of some measurements; nan: of another space."""

FEWEST_PATTERNS: Final = 3
DEFAULT_LIKE: Final = ("i1:U,k1:C", "i1:U,k1:C,l1:C", "i1:U,k1:C,l1:C | bits=16")
"""Formats that the default kernel of an operation walks: CSR, and CSF of a tensor, of either index width."""


def fit_scale(found: Iterable[Measurements], costs: Costs) -> Scale:
    """The scale that explains `found` best, for costs that only rank.

    slope: least squares of log ratio on cost with an intercept per pattern, positive. anchor: the schedule of a
    format of DEFAULT_LIKE that was measured on most patterns; its log ratio: the mean over patterns of what the line
    says at its cost.
    RecordError when there are fewer than FEWEST_PATTERNS patterns, or costs and times do not rise together.
    """
    rows = [row for one in found if (row := _row(one, costs)) is not None]
    if len(rows) < FEWEST_PATTERNS:
        raise RecordError.broken("measurements", reason=f"a scale needs {FEWEST_PATTERNS} patterns, got {len(rows)}")
    x = np.concatenate([row_costs - row_costs.mean() for _, row_costs, _ in rows])
    y = np.concatenate([logs - logs.mean() for _, _, logs in rows])
    slope = float(x @ y / max(1e-12, float(x @ x)))
    if slope <= 0:
        raise RecordError.broken("cost model", reason="its costs fall where times rise: it has learned nothing")
    counts: dict[SuperSchedule, int] = {}
    for schedules, _, _ in rows:
        for one in schedules:
            if str(one.format) in DEFAULT_LIKE:
                counts[one] = counts.get(one, 0) + 1
    if not counts:
        raise RecordError.broken("measurements", reason=f"none of a schedule of format {' or '.join(DEFAULT_LIKE)}")
    anchor = max(counts, key=lambda one: (counts[one], one.to_json()))
    at_anchor = []
    for schedules, row_costs, logs in rows:
        if anchor in schedules:
            cost = row_costs[schedules.index(anchor)]
            at_anchor.append(float(logs.mean() + slope * (cost - row_costs.mean())))
    return Scale(slope=slope, anchor=anchor, anchor_log_ratio=float(np.mean(at_anchor)))


def _row(
    one: Measurements, costs: Costs
) -> tuple[list[SuperSchedule], NDArray[np.floating], NDArray[np.floating]] | None:
    kept = np.flatnonzero((one["status"] == MEASURED) & (one["ratio"] > 0))
    schedules = [SuperSchedule.from_json(one.schedules[at]) for at in kept.tolist()]
    if not schedules:
        return None
    try:
        found = np.asarray(costs(one, schedules), np.float64)
    except FileNotFoundError:  # a real pattern that is not here
        return None
    logs = np.log(one["ratio"][kept].astype(np.float64))
    known = np.flatnonzero(np.isfinite(found))
    return ([schedules[at] for at in known.tolist()], found[known], logs[known]) if known.size > 1 else None
