"""Correction of predictions by kriging: a model's errors are similar where schedules are similar.

log(time / predicted time) of schedules s, t on one pattern has the covariance

c(s, t) = COMMON + sum of VARIANCES[f] over the features f that s and t share (+ OWN if s = t).

After measured ratios r of the schedules S, the expected log errors of others T are c(T, S) c(S, S)^-1 log(r /
predicted). The variances are about half of a least-squares fit of squared error differences on the differing features,
with errors of the boosted model of SpMV on patterns outside its training (docs/design/tuning-policy.md).
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import numpy as np
from autosparse.tuner.analytic.matmul import Proposal
from numpy.typing import NDArray

from autosparse.core.dtypes import Real
from autosparse.core.schedule import SuperSchedule
from autosparse.targets.priors import numbers

_VARIANCES: Final = numbers("residual variances")
OWN, COMMON = _VARIANCES["own"], _VARIANCES["common"]  # of each schedule by itself; what all of a pattern share
OF_FORMAT: Final = ("levels", "splits", "rows", "index_bits", "sigma")
"""Features that are attributes of the format; the others are attributes of the schedule."""
VARIANCES: Final[Sequence[tuple[float, Callable[[SuperSchedule], Any]]]] = tuple(
    (variance, operator.attrgetter(f"format.{name}" if name in OF_FORMAT else name))
    for name, variance in _VARIANCES.items()
    if name not in ("own", "common")
)
"""Pairs (variance of log errors, feature that schedules share or not)."""


def next_best(named: Sequence[Proposal], ratios: Mapping[SuperSchedule, float], n: int) -> list[SuperSchedule]:
    """Return the `n` unmeasured schedules of `named` with the shortest expected times, by measured ratios of others."""
    timed = [one for one in named if one.schedule in ratios]
    fresh = [one for one in named if one.schedule not in ratios]
    costs = np.log([one.ratio for one in fresh])
    if timed:  # add the expected errors, log(measured / predicted), given those of `timed`
        seen = np.array([np.log(ratios[one.schedule] / one.ratio) for one in timed])
        schedules = [one.schedule for one in (*fresh, *timed)]
        among = np.full((len(schedules), len(timed)), COMMON)
        for variance, feature in VARIANCES:
            numbers: dict[Any, int] = {}
            values = np.array([numbers.setdefault(feature(one), len(numbers)) for one in schedules])
            among += variance * (values[:, None] == values[None, len(fresh) :])
        weights = _solved(among[len(fresh) :] + OWN * np.eye(len(timed)), seen)
        costs = costs + (among[: len(fresh)] * weights).sum(1)
    return [fresh[at].schedule for at in np.argsort(costs, kind="stable")[:n].tolist()]


def _solved(matrix: NDArray[Real], right: NDArray[Real]) -> NDArray[Real]:
    """Solve a small definite system without BLAS: OpenBLAS ends a process that has no memory for its buffers."""
    both = np.column_stack([matrix, right])
    for k in range(len(right)):
        both[k] /= both[k, k]
        both -= np.where(np.arange(len(right)) == k, 0.0, both[:, k])[:, None] * both[k]
    return both[:, -1]
