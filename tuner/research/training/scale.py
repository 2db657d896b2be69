"""Fit of a learned model's scale to measurements, which converts cost differences to time ratios."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Final

import numpy as np
from autosparse.tuner.learned.predict import RatioScale
from autosparse.tuner.research.collect.files import MEASURED, REFUSED, Measurements
from numpy.typing import NDArray

from autosparse.core.dtypes import Real
from autosparse.core.schedule import SuperSchedule
from autosparse.core.values import dataclass
from autosparse.errors import RecordError

Floats = NDArray[Real]
Costs = Callable[[Measurements, list[SuperSchedule]], NDArray[np.floating]]
"""Function that returns a model's costs of schedules on the pattern of some measurements; nan outside its space."""

FEWEST_PATTERNS: Final = 3
DEFAULT_LIKE: Final = ("i1:U,k1:C", "i1:U,k1:C,l1:C", "i1:U,k1:C,l1:C | bits=16")
"""Formats that the default kernel traverses: CSR, and CSF of a tensor with either index width."""


@dataclass(frozen=True, eq=False)
class _Case:
    """Data of one pattern for the fit: costs and log ratios of fully measured schedules, and costs of anchors.

    `anchors` are schedules in a default format.
    """

    costs: Floats
    logs: Floats
    anchors: Mapping[SuperSchedule, float]


def fit_scale(found: Iterable[Measurements], costs: Costs) -> RatioScale:
    """Fit the scale that explains `found` best, for costs that only rank.

    The slope is a least-squares fit of log ratio on cost, with an intercept per pattern, and must be positive. The
    anchor is the schedule with a format of DEFAULT_LIKE that ran on most patterns, fully measured or not. Its log ratio
    is the mean over patterns of the fitted line at its cost. Raises RecordError for fewer than FEWEST_PATTERNS
    patterns, or when costs and times do not rise together.
    """
    cases = [case for one in found if (case := _case(one, costs)) is not None]
    if len(cases) < FEWEST_PATTERNS:
        raise RecordError.broken("measurements", reason=f"a scale needs {FEWEST_PATTERNS} patterns, got {len(cases)}")
    x = np.concatenate([case.costs - case.costs.mean() for case in cases])
    y = np.concatenate([case.logs - case.logs.mean() for case in cases])
    slope = float(x @ y / max(1e-12, float(x @ x)))
    if slope <= 0:
        reason = f"predicted costs do not increase with measured times (slope {slope:.3g} <= 0): train it again"
        raise RecordError.broken("cost model", reason=reason)
    counts = Counter(one for case in cases for one in case.anchors)
    if not counts:
        formats = " or ".join(DEFAULT_LIKE)
        raise RecordError.broken("measurements", reason=f"no schedule of format {formats}, which anchors the scale")
    anchor = max(counts, key=lambda one: (counts[one], one.to_json()))
    at_anchor = [
        float(case.logs.mean() + slope * (case.anchors[anchor] - case.costs.mean()))
        for case in cases
        if anchor in case.anchors
    ]
    return RatioScale(slope=slope, anchor=anchor, anchor_log_ratio=float(np.mean(at_anchor)))


def _case(one: Measurements, costs: Costs) -> _Case | None:
    kept = np.flatnonzero((one["status"] != REFUSED) & (one["ratio"] > 0))
    schedules = [SuperSchedule.from_json(one.schedules[at]) for at in kept.tolist()]
    if not schedules:
        return None
    try:
        found = np.asarray(costs(one, schedules), Real)
    except FileNotFoundError:  # a real pattern whose file is missing
        return None
    is_known = np.isfinite(found)
    measured = np.flatnonzero(is_known & (one["status"][kept] == MEASURED))
    if measured.size < 2:
        return None
    anchors = {
        schedule: float(cost)
        for schedule, cost, known in zip(schedules, found, is_known, strict=True)
        if known and str(schedule.format) in DEFAULT_LIKE
    }
    return _Case(found[measured], np.log(one["ratio"][kept[measured]].astype(Real)), anchors)
