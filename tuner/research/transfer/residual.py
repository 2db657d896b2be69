"""Transfer by an additive residual: cost = a * base + theta . phi(program), fitted by ridge regression.

`base` is the prediction of a model of another platform. phi is additive in the parameters and their pairs (`counts`),
and may include features of a program on the pattern. Only the order of programs within a pattern matters, so base, phi
and log times are centred per pattern. Leave-one-pattern-out validation selects the ridge and whether the residual is
kept (DASH specification, section 10). Only NumPy is needed.

The other transfer is `fit_correction`: boosted trees fit the residuals of a source model on the target's samples (extra
`train`). Validation matrices showed it to be best from five sampled matrices on
(`benchmarks/results/transfer-validation.md`). With one matrix, the additive residual is as good.
"""

from __future__ import annotations

import importlib.util
import itertools
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
from autosparse.tuner.research.training.ranking import pooled_pairs
from autosparse.tuner.research.transfer.source import FEW_TREES, Floats, SourceModel, fit_source
from numpy.typing import NDArray

from autosparse.core.dtypes import Flag, NarrowReal, Real

Doubles = NDArray[Real]

RIDGES: Final = (0.01, 0.1, 1.0, 10.0, 100.0, 1000.0)
RIDGE_OF_ONE: Final = 10.0
"""Ridge for a single pattern, where cross-validation is impossible."""
GAIN: Final = 0.01
"""Minimum relative gain in ordered pairs of left-out patterns for which the residual is kept."""


@dataclass(frozen=True, eq=False)
class Fitted:
    """Samples of one pattern for the fit: costs by the source, features phi, and log times."""

    base: NDArray[np.floating[Any]] = field(repr=False)  # (n,) costs predicted by the source
    phi: NDArray[np.floating[Any]] = field(repr=False)  # (n, d)
    y: Doubles = field(repr=False)  # (n,) logarithms of times


@dataclass(frozen=True, eq=False)
class Transferred:
    """Cost model of a target: ``scale * base + phi @ theta``.

    `ridge` is the selected strength; None: no residual was kept, and costs are those of the base. `pairs` holds the
    shares of ordered pairs on left-out patterns (before, after); nan for a single pattern.
    """

    theta: Doubles = field(repr=False)
    scale: float
    ridge: float | None
    pairs: tuple[float, float]

    def costs(self, base: NDArray[np.floating[Any]], phi: NDArray[np.floating[Any]]) -> Doubles:
        """Return costs of programs from the source's costs (n,) and phi (n, d); exactly the base without a residual."""
        if self.ridge is None:
            return np.asarray(base, Real)
        return self.scale * np.asarray(base, Real) + np.asarray(phi, Real) @ self.theta


def fit_residual(patterns: Sequence[Fitted], *, scale: float = 1.0) -> Transferred:
    """Fit ``scale * base + phi @ theta`` to the samples with the best ridge strength.

    The source alone is returned when nothing is gained, or without patterns. A base of zeros orders no pair, so that
    the residual alone is kept.
    """
    if not patterns:
        return Transferred(np.zeros(0), scale, None, (np.nan, np.nan))
    moments = [_Moments.of(one) for one in sorted((_centred(one) for one in patterns), key=lambda one: one.y.tobytes())]
    if len(moments) == 1:
        theta, _ = _ridge(moments, RIDGE_OF_ONE, scale)
        return Transferred(theta, scale, RIDGE_OF_ONE, (np.nan, np.nan))
    before = _pairs([one.x[:, 0] for one in moments], moments)
    best, chosen = -1.0, (RIDGES[0], False)
    with _one_thread():
        # Of equal results the strongest ridge
        for ridge, is_free in itertools.product(reversed(RIDGES), (False, True)):
            after = _left_out(moments, ridge, None if is_free else scale)
            if after > best:
                best, chosen = after, (ridge, is_free)
    if best <= before * (1 + GAIN):
        return Transferred(np.zeros(moments[0].x.shape[1] - 1), scale, None, (before, before))
    theta, a = _ridge(moments, chosen[0], None if chosen[1] else scale)
    return Transferred(theta, a, chosen[0], (before, best))


def _one_thread() -> AbstractContextManager[object]:
    """Limit BLAS to one thread, since more gain nothing in hundreds of small systems and stall on busy machines."""
    try:
        from threadpoolctl import threadpool_limits
    except ModuleNotFoundError:
        return nullcontext()
    return threadpool_limits(1, user_api="blas")  # type: ignore[no-any-return]


def _centred(one: Fitted) -> Fitted:
    base, phi = np.asarray(one.base, Real), np.asarray(one.phi, Real)
    order = np.lexsort((base, one.y))  # sums must not depend on the order of samples
    return Fitted((base - base.mean())[order], (phi - phi.mean(axis=0))[order], (one.y - one.y.mean())[order])


@dataclass(frozen=True, eq=False)
class _Moments:
    """Columns (base, phi) and log times of one pattern, with the matrix products that every ridge strength needs."""

    x: Doubles
    y: Doubles
    gram: Doubles
    xy: Doubles

    @classmethod
    def of(cls, one: Fitted) -> _Moments:
        x = np.column_stack([one.base, one.phi])
        return cls(x, one.y, x.T @ x, x.T @ one.y)


def _ridge(patterns: Sequence[_Moments], ridge: float, scale: float | None) -> tuple[Doubles, float]:
    """Return (theta, a); a is `scale`, or fitted with theta (at least 0, almost without penalty)."""
    gram: Doubles = np.sum([one.gram for one in patterns], axis=0, dtype=Real)
    xy: Doubles = np.sum([one.xy for one in patterns], axis=0, dtype=Real)
    strengths = np.full(len(xy), ridge)
    if scale is None:
        strengths[0] = 1e-6
        found = _solved(gram, strengths, xy)
        if found[0] >= 0:
            return found[1:], float(found[0])
        scale = 0.0
    left = xy[1:] - scale * gram[1:, 0]
    return _solved(gram[1:, 1:], strengths[1:], left), scale


def _solved(gram: Doubles, strengths: Doubles, xy: Doubles) -> Doubles:
    found: Doubles = np.linalg.solve(gram + np.diag(strengths), xy).astype(Real, copy=False)
    return found


def _left_out(patterns: Sequence[_Moments], ridge: float, scale: float | None) -> float:
    costs = []
    for at, one in enumerate(patterns):
        theta, a = _ridge([*patterns[:at], *patterns[at + 1 :]], ridge, scale)
        costs.append(a * one.x[:, 0] + one.x[:, 1:] @ theta)
    return _pairs(costs, patterns)


def _pairs(costs: Sequence[Doubles], patterns: Sequence[_Moments]) -> float:
    """Return the share of sample pairs that `costs` order as the times do; equal times do not form a pair."""
    exact = [np.zeros(one.y.size, Flag) for one in patterns]
    return pooled_pairs((cost, one.y, flags) for cost, one, flags in zip(costs, patterns, exact, strict=True))


FEWEST: Final = 5
"""Minimum number of sampled matrices for which validation found this to be the best transfer."""


def can_fit() -> bool:
    """Return whether corrections can be fitted here, which needs scikit-learn."""
    return importlib.util.find_spec("sklearn") is not None


@dataclass(frozen=True, eq=False)
class Corrected:
    """Cost model of a target platform: costs predicted by the model `source`, plus a correction by `trees`."""

    source: SourceModel = field(repr=False)
    trees: SourceModel = field(repr=False)

    def costs(self, rows: Floats) -> NDArray[Real]:
        """Return predicted logarithms of times for rows of features, (n,), up to a constant per pattern."""
        base = self.source.costs(rows)
        return np.asarray(base + self.trees.costs(_beside(rows, base)), Real)


def fit_correction(source: SourceModel, rows: Sequence[Floats], y: Sequence[NDArray[Real]]) -> Corrected:
    """Fit a correction of `source` to samples on a target: feature rows (`described`) and log times, per pattern.

    Raises MissingExtraError without scikit-learn.
    """
    bases = [source.costs(one) for one in rows]
    left = [one - base for one, base in zip(y, bases, strict=True)]
    beside = [_beside(one, base) for one, base in zip(rows, bases, strict=True)]
    return Corrected(source, fit_source(beside, left, settings=FEW_TREES))


def _beside(rows: Floats, base: NDArray[np.floating[Any]]) -> Floats:
    return np.column_stack([rows, base]).astype(NarrowReal)
