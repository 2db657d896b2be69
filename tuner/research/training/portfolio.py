"""Selection of a model's portfolio: about a hundred programs whose best is nearly as fast as the best of thousands.

The greedy selection adds the program that most reduces the mean predicted time of the best usable program over training
patterns. Scoring a hundred programs is cheaper than searching a graph of thousands, and loses a few tenths of a percent
of the best predicted time (docs/design/cost-models.md).
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
from autosparse.tuner.analytic.models import predicted_ratios
from autosparse.tuner.learned.predict import suits
from autosparse.tuner.learned.scorers import guess_column
from autosparse.tuner.learned.trees import Trees
from autosparse.tuner.research.training.data import DataSet, TrainingCase
from autosparse.tuner.research.training.restriction import is_own
from numpy.typing import NDArray

from autosparse.core.dtypes import Flag, NarrowReal, ProgramCode, Real, WideIndex
from autosparse.core.problem import Problem
from autosparse.core.schedule import SuperSchedule

N_PORTFOLIO: Final = 128
N_POOL: Final = 2048
"""Number of programs to choose from: those that came nearest to the best measured one on some pattern."""
N_PATTERNS: Final = 240
"""Number of training patterns, evenly spread, on which programs are compared."""
WORST: Final = 3.0
"""Log ratio assumed for a program that cannot be used on a pattern."""

Codes = NDArray[ProgramCode]
Floats = NDArray[NarrowReal]


@dataclass(slots=True)
class Pool:
    """Candidate programs for a portfolio, and the patterns on which they are compared."""

    schedules: Sequence[SuperSchedule]
    codes: Codes
    every: int  # interval between the patterns that are used
    _n_met: int = 0
    _patterns: list[tuple[Floats, Codes, NDArray[Flag]]] = field(default_factory=list)

    @classmethod
    def of(cls, data: DataSet, cases: Sequence[TrainingCase], n_pool: int = N_POOL) -> Pool:
        """Build the pool from the schedules of `cases` that came nearest to the best of their pattern.

        Where the data have several spaces, only programs of this library's space are taken.
        """
        loss: dict[SuperSchedule, float] = {}
        codes: dict[SuperSchedule, NDArray[ProgramCode]] = {}
        for case in cases:
            ratios = case.ratios / case.ratios.min()
            for at in np.flatnonzero(is_own(case.codes, data.space)).tolist():
                one = case.schedules[at]
                loss[one] = min(loss.get(one, np.inf), float(ratios[at]))
                codes[one] = case.codes[at]
        nearest = sorted(loss, key=lambda one: (loss[one], one.to_json()))
        kept = list(itertools.islice(nearest, n_pool))
        return cls(kept, np.stack([codes[one] for one in kept]), max(1, len(cases) // N_PATTERNS))

    def look_at(self, pattern: Floats, problem: Problem) -> None:
        """Use every `every`-th of the patterns given here for the comparison of programs."""
        self._n_met += 1
        if self._n_met % self.every:
            return
        guesses = guess_column(np.asarray(predicted_ratios(problem, self.schedules)))
        usable = np.array([suits(problem, one) for one in self.schedules])
        self._patterns.append((pattern, guesses, usable))

    def chosen(self, trees: Trees, n: int = N_PORTFOLIO) -> Codes:
        """Return the codes, (n, columns), of at most `n` programs that together are best on the patterns by `trees`."""
        logs = np.full((len(self._patterns), len(self.schedules)), WORST)
        for row, (pattern, guesses, usable) in zip(logs, self._patterns, strict=True):
            row[usable] = trees.on(pattern).predict(np.hstack([self.codes, guesses])[usable])
        return self.codes[greedy(logs, n)]


def greedy(logs: NDArray[Real], n: int) -> NDArray[WideIndex]:
    """Return up to `n` columns of `logs` (patterns, programs) that greedily minimise the mean of row minima."""
    if not logs.size:
        return np.arange(min(n, logs.shape[1]), dtype=WideIndex)
    best = np.full(len(logs), WORST)
    chosen: list[int] = []
    for _ in range(min(n, logs.shape[1])):
        means = np.minimum(logs, best[:, None]).mean(axis=0)
        means[chosen] = np.inf
        at = int(np.argmin(means))
        chosen.append(at)
        best = np.minimum(best, logs[:, at])
    return np.array(chosen, WideIndex)
