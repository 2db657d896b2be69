"""Adjustments of a model to a machine: ``slope`` times the model's prediction, plus a sum of trees.

All are fitted to logarithms of measured ratios with the training weights, which emphasise the order of the fastest
schedules. An intercept is fitted last, so that no adjustment shifts the mean prediction.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from autosparse.tuner.learned.trees import Trees
from autosparse.tuner.research.calibration.examples import Example, Logs
from autosparse.tuner.research.training.boosting import (
    BoostSettings,
    clipped_logs,
    features_of,
    fit,
    trees_of,
    weights_of,
)

RIDGE: Final = 30.0
"""Ridge penalty of `residual`, in programs: an effect from that many programs is shrunk by half."""
FEWEST_OF_VALUE: Final = 3
"""Minimum number of programs with a value of a column for which `residual` fits a coefficient."""
SLOPES: Final = (0.5, 1.5)
"""Bounds of `scale`'s slope, since few patterns may agree outside of them by chance."""
N_TREES: Final = 40
SETTINGS: Final = BoostSettings(n_trees=N_TREES, rate=0.1, leaves=8, fewest=20, seed=0)


@dataclass(frozen=True, eq=False)
class Adjustment:
    """Correction of a model's predictions: ``slope * prediction + more``.

    `more` is None or trees over the model's features.
    """

    slope: float = 1.0
    more: Trees | None = None

    def on(self, one: Example) -> Logs:
        """Return the corrected log ratios of the programs of `one`."""
        found = self.slope * one.predicted
        if self.more is not None:
            found = found + self.more.on(one.pattern).predict(one.programs)
        return np.asarray(found, np.float64)


Fit = Callable[[Sequence[Example]], Adjustment]


def left_over(examples: Sequence[Example], adjustment: Adjustment) -> tuple[Logs, Logs]:
    """Return (measured minus adjusted log ratio, weight) of every program of all examples, concatenated."""
    rest = np.concatenate([clipped_logs(one.ratios) - adjustment.on(one) for one in examples])
    return rest, np.concatenate([weights_of(one.ratios, SETTINGS) for one in examples])


def _nothing(examples: Sequence[Example]) -> Adjustment:
    return Adjustment()


def _scale(examples: Sequence[Example]) -> Adjustment:
    """Fit slope and intercept of the predictions by weighted least squares."""
    y, weights = left_over(examples, Adjustment(slope=0.0))
    x = np.concatenate([one.predicted for one in examples])
    mean_x, mean_y = np.average(x, weights=weights), np.average(y, weights=weights)
    spread = float(np.average((x - mean_x) ** 2, weights=weights))
    slope = float(np.average((x - mean_x) * (y - mean_y), weights=weights)) / spread if spread > 0 else 1.0
    return _centred(Adjustment(slope=float(np.clip(slope, *SLOPES))), examples)


def _residual(examples: Sequence[Example]) -> Adjustment:
    """Fit an additive correction per value of each code column, by ridge regression within patterns.

    Errors that all programs of a pattern share are removed first, since they do not distinguish programs.
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
    """Return (indicators, residuals, weights) of one pattern's programs, the first two centred.

    Indicator (column, value) of `parts` is 1 where a program's code has that value in that column.
    """
    y, weights = left_over([one], Adjustment())
    x = np.stack([one.programs[:, column] == value for column, value in parts], axis=1).astype(np.float64)
    return x - np.average(x, axis=0, weights=weights), y - np.average(y, weights=weights), weights


def _common_values(column: np.ndarray) -> list[int]:
    values, counts = np.unique(column, return_counts=True)
    return values[counts >= FEWEST_OF_VALUE].tolist() if values.size > 1 else []


def _step(feature: int, value: int, effect: float) -> list[tuple[int, float, int, int]]:
    """Return a tree whose value is `effect` where the feature equals `value`, else 0."""
    return [(feature, value - 0.5, 1, 2), (-1, 0.0, 0, 0), (feature, value + 0.5, 3, 4), (-1, float(effect), 0, 0),
            (-1, 0.0, 0, 0)]  # fmt: skip


def _more_trees(examples: Sequence[Example]) -> Adjustment:
    """Fit an additive correction to the residuals by boosted trees (extra `train`: scikit-learn)."""
    rest, weights = left_over(examples, Adjustment())
    x = np.vstack([features_of(one.pattern, one.programs) for one in examples])
    fitted = fit(x, rest, n_sketch=examples[0].pattern.size, settings=SETTINGS, weights=weights)
    return _centred(Adjustment(more=fitted.trees), examples)


def _centred(found: Adjustment, examples: Sequence[Example]) -> Adjustment:
    """Return `found` with the intercept that makes the weighted mean residual 0."""
    rest, weights = left_over(examples, found)
    shift = trees_of([], float(np.average(rest, weights=weights)), examples[0].pattern.size)
    return Adjustment(found.slope, shift if found.more is None else found.more.joined(shift))


ADJUSTMENTS: Final[Mapping[str, Fit]] = {
    "nothing": _nothing,
    "scale": _scale,
    "residual": _residual,
    "more trees": _more_trees,
}
"""Adjustments in order of complexity; among equally good ones the first is taken."""
NEEDS: Final[Mapping[str, str]] = {"more trees": "sklearn"}
"""Adjustment -> the module that it requires."""


def missing() -> dict[str, str]:
    """Return a mapping from adjustments that cannot run here to the module that they lack."""
    return {way: module for way, module in NEEDS.items() if importlib.util.find_spec(module) is None}
