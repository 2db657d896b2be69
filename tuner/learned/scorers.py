"""Scorers of learned cost models: features of a pattern, inputs of programs, and costs from both.

`TreesScorer` is boosted trees over statistics. `autosparse.tuner.registry` names the scorers of other models.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Protocol

import numpy as np
from autosparse.tuner import registry
from autosparse.tuner.features.pattern_vector import SKETCH_WIDTHS, sketch
from autosparse.tuner.features.setting import N_SETTING, RunSetting
from autosparse.tuner.learned.codes import Structure
from autosparse.tuner.learned.names import is_wide
from autosparse.tuner.learned.trees import Trees
from autosparse.tuner.learned.weights import LearnedWeights
from numpy.typing import NDArray

from autosparse.core.dtypes import NarrowIndex, NarrowReal, ProgramCode, Real
from autosparse.core.values import dataclass
from autosparse.errors import RecordError

Floats = NDArray[NarrowReal]
Codes = NDArray[ProgramCode]
Ids = NDArray[NarrowIndex]
Programs = NDArray[NarrowReal] | NDArray[ProgramCode]

BOOSTED: Final = "boosted"
"""Name of boosted trees among the extractors."""
GUESS_STEPS: Final = 256.0
"""Integer steps per factor e in which trees read the analytic model's ratio."""
MAX_GUESS: Final = 2000
"""Bound of the steps in both directions."""


class Scorer(Protocol):
    """Interface of a model that assigns costs to programs on a pattern; lower is faster, but costs are no seconds."""

    @property
    def n_features(self) -> int:
        """Return the length of `features`."""

    @property
    def reads_guesses(self) -> bool:
        """Return whether the last column of `programs` is the analytic model's ratio (`guess_column`)."""

    def features(self, pattern: Structure) -> Floats:
        """Return the model's features of a pattern, (n_features,), the expensive part; equal for equal structures."""

    def programs(self, rows: Codes) -> Programs:
        """Return the precomputed input of `on` for programs, given by rows of codes."""

    def on(self, features: Floats, setting: RunSetting) -> Callable[[Programs, Ids | None], Floats]:
        """Return a function that computes costs on one pattern, of all programs or of those with given numbers."""


@dataclass(frozen=True, eq=False)
class TreesScorer:
    """Scorer of boosted trees; costs are logarithms of ratios to the default kernel."""

    trees: Trees
    dimension: int
    is_wide: bool = True
    reads_guesses: bool = True

    @property
    def n_features(self) -> int:
        """Return the length of a sketch."""
        return SKETCH_WIDTHS[self.dimension]

    def features(self, pattern: Structure) -> Floats:
        """Return the pattern's sketch."""
        if len(pattern.shape) != self.dimension:
            raise ValueError(f"a pattern of {len(pattern.shape)} dimensions for a model of {self.dimension}")
        return sketch(pattern, is_wide=self.is_wide)

    def programs(self, rows: Codes) -> Codes:
        """Return the codes of the programs."""
        return np.ascontiguousarray(rows, ProgramCode)

    def on(self, features: Floats, setting: RunSetting) -> Callable[[Programs, Ids | None], Floats]:
        """Return the trees specialised to this pattern and setting."""
        trees = self.trees.on(inputs(features, setting))

        def costs(programs: Programs, ids: Ids | None = None) -> Floats:
            return trees.of_codes(np.asarray(programs, ProgramCode), ids)

        return costs


def n_inputs(dimension: int) -> int:
    """Return the number of inputs, of pattern and setting, that precede a program's code."""
    return SKETCH_WIDTHS[dimension] + N_SETTING


def inputs(features: Floats, setting: RunSetting) -> Floats:
    """Return the trees' inputs of pattern and setting, (n_inputs(dimension),)."""
    return np.concatenate([np.asarray(features, NarrowReal), setting.numbers()])


def guess_column(ratios: NDArray[np.floating]) -> Codes:
    """Return the analytic model's ratios (n,) as a column of integer codes (n, 1), proportional to their logarithms."""
    steps = np.round(GUESS_STEPS * np.log(np.asarray(ratios, Real)))
    return np.clip(steps, -MAX_GUESS, MAX_GUESS).astype(ProgramCode)[:, None]


def scorer_of(weights: LearnedWeights) -> Scorer:
    """Return the scorer of `weights`; raise RecordError when they are invalid."""
    try:
        if weights.extractor == BOOSTED:
            trees = Trees.of(weights.tensors, n_inputs(weights.dimension))
            return TreesScorer(trees, weights.dimension, is_wide(weights.op))
        made: Scorer = registry.load("scorer", weights.extractor)(weights)
        return made
    except (ValueError, KeyError, TypeError) as error:
        raise RecordError.broken(f"cost model of {weights.op}", reason=f"it cannot be used: {error}") from error
