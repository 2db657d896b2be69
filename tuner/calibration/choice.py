"""Which adjustment to take: each is fitted without one group of patterns and judged on that group, group by group."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from autosparse.tuner.calibration.adjustments import ADJUSTMENTS, Adjustment, Fit, missing
from autosparse.tuner.calibration.examples import Example, Logs
from autosparse.tuner.training.ranking import pooled_pairs

NOTHING: Final = "nothing"
TOP: Final = (1, 3, 5)
"""Loss of a pattern: what the best of its k predicted best leaves to be had, the mean over these k. Of one pattern the
best of one alone says little."""
FEWEST_GROUPS: Final = 3
"""Fewer patterns decide nothing: the model stays."""
SURE: Final = 2.0
"""Standard errors of the paired gain that an adjustment must gain at least: with one, most of what was taken lost
(benchmarks/results/xeon300/calibrate.md)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """What one adjustment came to on patterns that it was not fitted to."""

    way: str
    losses: tuple[float, ...]  # of each example: mean over TOP of log(best of k predicted best / best of all)
    pairs: float  # share of pairs of programs in order
    estimate: (
        float  # geometric mean over examples: time of the predicted best, or the default kernel's, over the latter
    )

    @property
    def loss(self) -> float:
        """Mean over the examples."""
        return float(np.mean(self.losses))

    @property
    def top1(self) -> float:
        """Share of the best measured speed that choosing by this comes to: exp(-loss)."""
        return math.exp(-self.loss)


@dataclass(frozen=True, slots=True, kw_only=True)
class CalibrationChoice:
    """The way that was taken, fitted to all examples, and every way's judgement."""

    way: str
    adjustment: Adjustment
    judged: Mapping[str, Judgement]
    left_out: Mapping[str, str]  # ways that could not compete -> the module that they lack

    @property
    def before(self) -> Judgement:
        """Of the model as it was."""
        return self.judged[NOTHING]

    @property
    def after(self) -> Judgement:
        """Of what was taken, on patterns that it was not fitted to."""
        return self.judged[self.way]


def choose(examples: Sequence[Example], *, ways: Mapping[str, Fit] = ADJUSTMENTS) -> CalibrationChoice:
    """The adjustment that does best on groups left out, "nothing" where none is surely better.

    An adjustment must gain SURE standard errors of the paired differences of losses, and order no fewer pairs.
    ValueError for no example.
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
    """`fit` judged on each group after it was fitted to all others."""
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
    logs = np.log(np.minimum(1.0, one.ratios.astype(np.float64)))  # the default kernel is always at hand
    return float(np.mean([logs[order[:k]].min() for k in TOP]) - logs.min())


def _taken(costs: Logs, one: Example) -> float:
    """Logarithm of the ratio of the predicted best; 0 where that is the default kernel."""
    at = int(np.argmin(costs))
    return float(np.log(one.ratios[at])) if costs[at] < 0 else 0.0


def _is_better(mine: Judgement, other: Judgement) -> bool:
    gains = np.subtract(other.losses, mine.losses)
    error = float(gains.std(ddof=1)) / math.sqrt(gains.size) if gains.size > 1 else math.inf
    return bool(gains.mean() > SURE * error and mine.pairs >= other.pairs)
