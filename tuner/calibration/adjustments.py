"""Ways to fit a model to a machine, each a sum of trees beside ``slope`` times the model's own prediction.

All are fitted to the logarithms of measured ratios with the weights of training (which of the fast schedules is
fastest matters, not which slow one), and an intercept is fitted last, so that none of them shifts what is predicted in
the mean.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from autosparse.tuner.calibration.examples import Example, Logs
from autosparse.tuner.learned.trees import Trees
from autosparse.tuner.training.boosting import BoostSettings, clipped_logs, features_of, fit, trees_of, weights_of

RIDGE: Final = 30.0
"""Weight of squared coefficients of `residual`: so many programs must agree before half an effect is believed."""
FEWEST_OF_VALUE: Final = 3
"""Programs that must have a value of a column before `residual` gives it a coefficient."""
SLOPES: Final = (0.5, 1.5)
"""Bounds of `scale`: outside of them few patterns have agreed by chance."""
N_TREES: Final = 40
SETTINGS: Final = BoostSettings(n_trees=N_TREES, rate=0.1, leaves=8, fewest=20, seed=0)


@dataclass(frozen=True, eq=False)
class Adjustment:
    """``slope * prediction + more``: `more` is None or trees over the features of the model."""

    slope: float = 1.0
    more: Trees | None = None

    def on(self, one: Example) -> Logs:
        """Adjusted logarithms of ratios of the programs of `one`."""
        found = self.slope * one.predicted
        if self.more is not None:
            found = found + self.more.on(one.pattern).predict(one.programs)
        return np.asarray(found, np.float64)


Fit = Callable[[Sequence[Example]], Adjustment]


def left_over(examples: Sequence[Example], adjustment: Adjustment) -> tuple[Logs, Logs]:
    """(measured minus adjusted logarithm of each program, its weight), over all examples."""
    rest = np.concatenate([clipped_logs(one.ratios) - adjustment.on(one) for one in examples])
    return rest, np.concatenate([weights_of(one.ratios, SETTINGS) for one in examples])


def _nothing(examples: Sequence[Example]) -> Adjustment:
    return Adjustment()


def _scale(examples: Sequence[Example]) -> Adjustment:
    """Slope and intercept by weighted least squares."""
    y, weights = left_over(examples, Adjustment(slope=0.0))
    x = np.concatenate([one.predicted for one in examples])
    mean_x, mean_y = np.average(x, weights=weights), np.average(y, weights=weights)
    spread = float(np.average((x - mean_x) ** 2, weights=weights))
    slope = float(np.average((x - mean_x) * (y - mean_y), weights=weights)) / spread if spread > 0 else 1.0
    return _centred(Adjustment(slope=float(np.clip(slope, *SLOPES))), examples)


def _residual(examples: Sequence[Example]) -> Adjustment:
    """An additive correction per value of each column of the code, by ridge regression within patterns.

    By how much all programs of a pattern are off says nothing of any of them.
    """
    codes = np.vstack([one.programs for one in examples]).astype(np.int64)
    parts = [(column, value) for column in range(codes.shape[1]) for value in _common_values(codes[:, column])]
    if not parts:
        return _centred(Adjustment(), examples)
    x, y, weights = (np.concatenate(rows) for rows in zip(*(_within(one, parts) for one in examples), strict=True))
    gram = (x * weights[:, None]).T @ x
    effects = np.linalg.solve(gram + RIDGE * np.eye(len(parts)), (x * weights[:, None]).T @ y)
    n_sketch = examples[0].pattern.size
    tables = [_step(n_sketch + column, value, effect) for (column, value), effect in zip(parts, effects, strict=True)]
    return _centred(Adjustment(more=trees_of(tables, 0.0, n_sketch)), examples)


def _within(one: Example, parts: Sequence[tuple[int, int]]) -> tuple[Logs, Logs, Logs]:
    """(which programs have which of `parts`, what the model leaves over, weights), the first two about their means."""
    y, weights = left_over([one], Adjustment())
    x = np.stack([one.programs[:, column] == value for column, value in parts], axis=1).astype(np.float64)
    return x - np.average(x, axis=0, weights=weights), y - np.average(y, weights=weights), weights


def _common_values(column: np.ndarray) -> list[int]:
    values, counts = np.unique(column, return_counts=True)
    return values[counts >= FEWEST_OF_VALUE].tolist() if values.size > 1 else []


def _step(feature: int, value: int, effect: float) -> list[tuple[int, float, int, int]]:
    """A tree that is `effect` where the feature is `value`, else 0."""
    return [(feature, value - 0.5, 1, 2), (-1, 0.0, 0, 0), (feature, value + 0.5, 3, 4), (-1, float(effect), 0, 0),
            (-1, 0.0, 0, 0)]  # fmt: skip


def _more_trees(examples: Sequence[Example]) -> Adjustment:
    """Boosted trees on what the model leaves over (extra `train`: scikit-learn)."""
    rest, weights = left_over(examples, Adjustment())
    x = np.vstack([features_of(one.pattern, one.programs) for one in examples])
    fitted = fit(x, rest, n_sketch=examples[0].pattern.size, settings=SETTINGS, weights=weights)
    return _centred(Adjustment(more=fitted.trees), examples)


def _centred(found: Adjustment, examples: Sequence[Example]) -> Adjustment:
    """`found` with the intercept for which the weighted mean of what is left over is 0."""
    rest, weights = left_over(examples, found)
    shift = trees_of([], float(np.average(rest, weights=weights)), examples[0].pattern.size)
    return Adjustment(found.slope, shift if found.more is None else found.more.joined(shift))


ADJUSTMENTS: Final[Mapping[str, Fit]] = {
    "nothing": _nothing,
    "scale": _scale,
    "residual": _residual,
    "more trees": _more_trees,
}
"""From the least to the most that is changed: of ways that do equally well the first is taken."""
NEEDS: Final[Mapping[str, str]] = {"more trees": "sklearn"}
"""Way -> the module that it needs."""


def missing() -> dict[str, str]:
    """Ways that cannot compete here -> the module that they lack."""
    return {way: module for way, module in NEEDS.items() if importlib.util.find_spec(module) is None}
