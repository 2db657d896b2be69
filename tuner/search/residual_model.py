"""Correction of predictions by kriging: a model's errors are similar where schedules are similar.

log(time / predicted time) of schedules s, t on one pattern has the covariance

c(s, t) = COMMON + sum of VARIANCES[f] over the features f that s and t share (+ OWN if s = t).

After measured ratios r of the schedules S, the expected log errors of others T are c(T, S) c(S, S)^-1 log(r /
predicted).

The variances are about half of a least-squares fit of squared error differences on the differing features. The errors
are those of the boosted model of SpMV on patterns outside its training (docs/design/tuning-policy.md).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import numpy as np
from autosparse.tuner.analytic.matmul import Proposal
from numpy.typing import NDArray

from autosparse.core.schedule import SuperSchedule

VARIANCES: Final[Sequence[tuple[float, Callable[[SuperSchedule], Any]]]] = (
    (0.0020, lambda one: one.format.levels),
    (0.0017, lambda one: one.format.splits),
    (0.0020, lambda one: one.format.rows),
    (0.0024, lambda one: one.format.index_bits),
    (0.0016, lambda one: one.format.sigma),
    (0.0020, lambda one: one.format),
    (0.0030, lambda one: one.loop_order),
    (0.0015, lambda one: one.dense_splits),
    (0.0007, lambda one: one.partition),
    (0.0015, lambda one: one.chunk),
    (0.0030, lambda one: one.threads),
    (0.0005, lambda one: one.prefetch),
    (0.0003, lambda one: one.unroll),
)
"""Pairs (variance of log errors, feature that schedules share or not)."""
OWN: Final = 0.003
"""Variance of each schedule by itself, including the noise of its time."""
COMMON: Final = 0.02
"""Variance common to all schedules of a pattern; it does not affect their order."""


def next_best(named: Sequence[Proposal], ratios: Mapping[SuperSchedule, float], n: int) -> list[SuperSchedule]:
    """Return the `n` unmeasured schedules of `named` with the shortest expected times, given the measured ones.

    `ratios` are measured times over the default kernel's, like the predicted ratios.
    """
    timed = [one for one in named if one.schedule in ratios]
    fresh = [one for one in named if one.schedule not in ratios]
    costs = np.log([one.ratio for one in fresh]) + _errors(fresh, timed, ratios)
    return [fresh[at].schedule for at in np.argsort(costs, kind="stable")[:n].tolist()]


def _errors(
    fresh: Sequence[Proposal], timed: Sequence[Proposal], ratios: Mapping[SuperSchedule, float]
) -> NDArray[np.float64]:
    """Return the expected error of each prediction in `fresh`: log(measured / predicted), from those of `timed`."""
    if not timed or not fresh:
        return np.zeros(len(fresh))
    seen = np.array([np.log(ratios[one.schedule] / one.ratio) for one in timed])
    among = np.full((len(fresh) + len(timed), len(timed)), COMMON)
    schedules = [one.schedule for one in (*fresh, *timed)]
    for variance, feature in VARIANCES:
        numbers: dict[Any, int] = {}
        values = np.array([numbers.setdefault(feature(one), len(numbers)) for one in schedules])
        among += variance * (values[:, None] == values[None, len(fresh) :])
    expected: NDArray[np.float64] = among[: len(fresh)] @ np.linalg.solve(
        among[len(fresh) :] + OWN * np.eye(len(timed)), seen
    )
    return expected
