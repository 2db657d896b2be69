"""The cheap transfer: cost = a * base + theta . phi(program), fitted by ridge regression to the target's samples.

`base` is what a model of another platform predicts; phi is additive in the parameters and their pairs (`counts`), and
may hold what a program does on the pattern. Only the order of the programs of a pattern matters, so base, phi and the
logarithms of times enter minus their means over the pattern's samples. The strength of the ridge, and whether the
residual is kept at all, are decided by leaving one pattern out at a time (dash-spec: 10). NumPy alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
from autosparse.tuner.learned.ranking import pooled_pairs
from numpy.typing import NDArray

Doubles = NDArray[np.float64]

RIDGES: Final = (0.01, 0.1, 1.0, 10.0, 100.0, 1000.0)
RIDGE_OF_ONE: Final = 10.0
"""With one pattern nothing can be left out."""
GAIN: Final = 0.01
"""Share of the pairs of patterns left out that must come into order, relatively, for the residual to be kept."""


@dataclass(frozen=True, eq=False)
class Fitted:
    """Samples of one pattern as the fit takes them."""

    base: Doubles = field(repr=False)  # (n,) costs that the source predicts
    phi: NDArray[np.floating[Any]] = field(repr=False)  # (n, d)
    y: Doubles = field(repr=False)  # (n,) logarithms of times


@dataclass(frozen=True, eq=False)
class Transferred:
    """``scale * base + phi @ theta``; `ridge` is what was chosen, None: no residual was kept, costs are the base's.

    `pairs` (before, after): share of pairs in order on patterns left out; nan where there was one pattern.
    """

    theta: Doubles = field(repr=False)
    scale: float
    ridge: float | None
    pairs: tuple[float, float]

    def costs(self, base: NDArray[np.floating[Any]], phi: NDArray[np.floating[Any]]) -> Doubles:
        """Costs of programs from the source's (n,) and phi (n, d); the base itself, bit for bit, without residual."""
        if self.ridge is None:
            return np.asarray(base, np.float64)
        return self.scale * np.asarray(base, np.float64) + np.asarray(phi, np.float64) @ self.theta


def fit_residual(patterns: Sequence[Fitted], *, scale: float = 1.0) -> Transferred:
    """The best of all ridges, with the base's scale free or `scale`; the source alone if nothing is gained.

    No pattern: the source alone. A base of zeros has no pair in order, so that a residual alone is kept.
    """
    if not patterns:
        return Transferred(np.zeros(0), scale, None, (np.nan, np.nan))
    centred = sorted((_centred(one) for one in patterns), key=lambda one: one.y.tobytes())
    if len(centred) == 1:
        theta, _ = _ridge(centred, RIDGE_OF_ONE, scale)
        return Transferred(theta, scale, RIDGE_OF_ONE, (np.nan, np.nan))
    before = _pairs([one.base for one in centred], centred)
    best, chosen = -1.0, (RIDGES[0], False)
    for ridge in reversed(RIDGES):  # of equal ones the strongest
        for is_free in (False, True):
            after = _left_out(centred, ridge, None if is_free else scale)
            if after > best:
                best, chosen = after, (ridge, is_free)
    if best <= before * (1 + GAIN):
        return Transferred(np.zeros(centred[0].phi.shape[1]), scale, None, (before, before))
    theta, a = _ridge(centred, chosen[0], None if chosen[1] else scale)
    return Transferred(theta, a, chosen[0], (before, best))


def _centred(one: Fitted) -> Fitted:
    base, phi = np.asarray(one.base, np.float64), np.asarray(one.phi, np.float64)
    return Fitted(base - base.mean(), phi - phi.mean(axis=0), one.y - one.y.mean())


def _ridge(patterns: Sequence[Fitted], ridge: float, scale: float | None) -> tuple[Doubles, float]:
    """(theta, a): a is `scale`, or fitted (at least 0) beside theta, hardly penalised."""
    phi = np.concatenate([one.phi for one in patterns])
    base = np.concatenate([one.base for one in patterns])
    y = np.concatenate([one.y for one in patterns])
    if scale is None:
        theta = _solved(np.column_stack([base, phi]), y, np.concatenate([[1e-6], np.full(phi.shape[1], ridge)]))
        if theta[0] >= 0:
            return theta[1:], float(theta[0])
        scale = 0.0
    return _solved(phi, y - scale * base, np.full(phi.shape[1], ridge)), scale


def _solved(x: Doubles, y: Doubles, ridges: Doubles) -> Doubles:
    found: Doubles = np.linalg.solve(x.T @ x + np.diag(ridges), x.T @ y)
    return found


def _left_out(patterns: Sequence[Fitted], ridge: float, scale: float | None) -> float:
    costs = []
    for at, one in enumerate(patterns):
        theta, a = _ridge([*patterns[:at], *patterns[at + 1 :]], ridge, scale)
        costs.append(a * one.base + one.phi @ theta)
    return _pairs(costs, patterns)


def _pairs(costs: Sequence[Doubles], patterns: Sequence[Fitted]) -> float:
    """Share of pairs in order; equal times are no pair."""
    exact = [np.zeros(one.y.size, np.bool_) for one in patterns]
    return pooled_pairs((cost, one.y, flags) for cost, one, flags in zip(costs, patterns, exact, strict=True))
