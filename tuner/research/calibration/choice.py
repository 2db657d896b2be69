"""Choice of the adjustment by cross-validation: fit without one group of patterns, judge on that group."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from autosparse.tuner.research.calibration.adjustments import ADJUSTMENTS, Adjustment, Fit, missing
from autosparse.tuner.research.calibration.examples import Example, Logs
from autosparse.tuner.research.training.ranking import pooled_pairs

NOTHING: Final = "nothing"
TOP: Final = (1, 3, 5)
"""Values of k over which the loss of a pattern is averaged.

The loss for k is the log ratio of the best of the k first-ranked programs to the best of all. For a single pattern, k =
1 alone is too noisy.
"""
FEWEST_GROUPS: Final = 3
"""Minimum number of groups; with fewer, the model stays unchanged."""
SURE: Final = 2.0
"""Minimum paired gain of an adjustment in standard errors.

With one standard error, most accepted adjustments lost (benchmarks/results/xeon300/calibrate.md).
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """Cross-validated performance of the adjustment named `way`."""

    way: str
    losses: tuple[float, ...]  # of each example: mean over TOP of log(best of the k first-ranked / best of all)
    pairs: float  # share of program pairs in the right order
    estimate: (
        # Geometric mean over examples of the ratio of the first-ranked program, 1 where that is the default kernel
        float
    )

    @property
    def loss(self) -> float:
        """Return the mean loss over the examples."""
        return float(np.mean(self.losses))

    @property
    def top1(self) -> float:
        """Return exp(-loss): speed reached by the first-ranked programs, as a share of the best measured speed."""
        return math.exp(-self.loss)


@dataclass(frozen=True, slots=True, kw_only=True)
class CalibrationChoice:
    """Chosen adjustment, fitted to all examples, with the cross-validated performance of every adjustment."""

    way: str
    adjustment: Adjustment
    judged: Mapping[str, Judgement]
    left_out: Mapping[str, str]  # adjustments that could not run -> the module that they lack

    @property
    def before(self) -> Judgement:
        """Return the judgement of the unadjusted model."""
        return self.judged[NOTHING]

    @property
    def after(self) -> Judgement:
        """Return the cross-validated judgement of the chosen adjustment."""
        return self.judged[self.way]


def choose(examples: Sequence[Example], *, ways: Mapping[str, Fit] = ADJUSTMENTS) -> CalibrationChoice:
    """Return the adjustment with the lowest cross-validated loss; "nothing" where none is significantly better.

    An adjustment must gain SURE standard errors of the paired loss differences and order no fewer pairs correctly.
    Raises ValueError without examples.
    """
    if not examples:
        raise ValueError("no measured pattern to calibrate with: 0 given, at least 1 needed")
    lacking = {way: module for way, module in missing().items() if way in ways}
    able = {way: one for way, one in ways.items() if way not in lacking}
    groups = sorted({one.group for one in examples})
    if len(groups) < FEWEST_GROUPS:
        able = {NOTHING: ways[NOTHING]}
    judged = {way: judged_without(examples, groups, way, one) for way, one in able.items()}
    taken = NOTHING
    for way in able:
        if _is_better(judged[way], judged[NOTHING]) and judged[way].loss < judged[taken].loss - 1e-12:
            taken = way
    return CalibrationChoice(way=taken, adjustment=able[taken](examples), judged=judged, left_out=lacking)


def judged_without(examples: Sequence[Example], groups: Sequence[str], way: str, fit: Fit) -> Judgement:
    """Return the performance of `fit` in cross-validation: each of `groups` is predicted by a fit to the others.

    `way` is the adjustment's name.
    """
    found: dict[int, Logs] = {}
    for group in groups:
        seen = [one for one in examples if one.group != group]
        adjustment = fit(seen) if seen and way != NOTHING else Adjustment()
        found |= {at: adjustment.on(one) for at, one in enumerate(examples) if one.group == group}
    predicted = [found[at] for at in range(len(examples))]
    scored = zip(predicted, examples, strict=True)
    return Judgement(
        way=way,
        losses=tuple(_loss(costs, one) for costs, one in scored),
        pairs=pooled_pairs((costs, one.ratios, one.censored) for costs, one in zip(predicted, examples, strict=True)),
        estimate=float(np.exp(np.mean([_taken(costs, one) for costs, one in zip(predicted, examples, strict=True)]))),
    )


def _loss(costs: Logs, one: Example) -> float:
    order = np.argsort(costs, kind="stable")
    logs = np.log(np.minimum(1.0, one.ratios.astype(np.float64)))  # the default kernel is always available
    return float(np.mean([logs[order[:k]].min() for k in TOP]) - logs.min())


def _taken(costs: Logs, one: Example) -> float:
    """Return the measured log ratio of the program with the lowest cost; 0 where that is the default kernel."""
    at = int(np.argmin(costs))
    return float(np.log(one.ratios[at])) if costs[at] < 0 else 0.0


def _is_better(mine: Judgement, other: Judgement) -> bool:
    gains = np.subtract(other.losses, mine.losses)
    error = float(gains.std(ddof=1)) / math.sqrt(gains.size) if gains.size > 1 else math.inf
    return bool(gains.mean() > SURE * error and mine.pairs >= other.pairs)
