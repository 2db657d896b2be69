"""Cost models as search sees them: what they keep of a pattern and of programs, and costs from both.

`NetworkScorer` is WACO's (a pattern's embedding, programs' embeddings, the last layers), `TreesScorer` boosted trees
over statistics. Both need NumPy and the runtime.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Protocol

import numpy as np
from autosparse.tuner.features.setting import N_SETTING, RunSetting
from autosparse.tuner.features.sketch import SKETCH_WIDTHS, sketch
from autosparse.tuner.learned.embeddings import Structure, embed_pattern, embed_programs
from autosparse.tuner.learned.names import is_wide
from autosparse.tuner.learned.trees import Trees
from autosparse.tuner.learned.weights import LearnedWeights, linear, rectified
from numpy.typing import NDArray

from autosparse.core.values import dataclass
from autosparse.errors import RecordError

Floats = NDArray[np.float32]
Codes = NDArray[np.int16]
Ids = NDArray[np.int32]
Programs = NDArray[np.float32] | NDArray[np.int16]

EMBEDDED: Final = 128
"""Length of the embedding of a pattern, and of a program."""
LAYERS: Final = ((128, 2 * EMBEDDED), (64, 128), (1, 64))
"""Shapes of a network's last layers, ``final.0``, ``final.2`` and ``final.4``."""
BOOSTED: Final = "boosted"
"""Name of trees among the extractors."""
GUESS_STEPS: Final = 256.0
"""Steps of the statistics model's guess, as trees read it, in a factor e."""
MAX_GUESS: Final = 2000
"""Steps beyond which a guess is cut."""


class Scorer(Protocol):
    """A cost model of one operation; lower costs are faster, they are no seconds."""

    @property
    def n_features(self) -> int:
        """Length of `features`."""

    @property
    def reads_guesses(self) -> bool:
        """Whether the last column of `programs` is the statistics model's guess (`guess_column`)."""

    def features(self, pattern: Structure) -> Floats:
        """What the model keeps of a pattern (n_features,): the part that costs time, the same for one structure."""

    def programs(self, rows: Codes) -> Programs:
        """What `on` reads of programs, computed once."""

    def on(self, features: Floats, setting: RunSetting) -> Callable[[Programs, Ids | None], Floats]:
        """Costs on one pattern of all programs, or of those with some numbers."""


@dataclass(frozen=True, eq=False)
class NetworkScorer:
    """WACO's cost model and its relatives."""

    weights: LearnedWeights
    n_features: int = EMBEDDED
    reads_guesses: bool = False

    def features(self, pattern: Structure) -> Floats:
        """The pattern's embedding."""
        return embed_pattern(pattern, self.weights)

    def programs(self, rows: Codes) -> Floats:
        """Their share in the predictor's first layer."""
        first = self.weights.tensors["final.0.weight"][:, EMBEDDED:]
        return np.asarray(embed_programs(rows, self.weights) @ first.T, np.float32)

    def on(self, features: Floats, setting: RunSetting) -> Callable[[Programs, Ids | None], Floats]:
        """The last layers with this pattern, whatever the setting."""
        tensors = self.weights.tensors
        share = tensors["final.0.weight"][:, :EMBEDDED] @ features + tensors["final.0.bias"]

        def costs(programs: Programs, ids: Ids | None = None) -> Floats:
            hidden = rectified(share + (programs if ids is None else programs[ids]))
            hidden = rectified(linear(tensors, "final.2", hidden))
            return linear(tensors, "final.4", hidden)[:, 0]

        return costs


@dataclass(frozen=True, eq=False)
class TreesScorer:
    """Boosted trees: costs are logarithms of ratios to the default kernel."""

    trees: Trees
    dimension: int
    is_wide: bool = True
    reads_guesses: bool = True

    @property
    def n_features(self) -> int:
        """Numbers in a sketch."""
        return SKETCH_WIDTHS[self.dimension]

    def features(self, pattern: Structure) -> Floats:
        """The pattern's sketch."""
        if len(pattern.shape) != self.dimension:
            raise ValueError(f"a pattern of {len(pattern.shape)} dimensions for a model of {self.dimension}")
        return sketch(pattern, is_wide=self.is_wide)

    def programs(self, rows: Codes) -> Codes:
        """Their codes."""
        return np.ascontiguousarray(rows, np.int16)

    def on(self, features: Floats, setting: RunSetting) -> Callable[[Programs, Ids | None], Floats]:
        """What is left of the trees for this pattern in this setting."""
        trees = self.trees.on(inputs(features, setting))

        def costs(programs: Programs, ids: Ids | None = None) -> Floats:
            return trees.of_codes(np.asarray(programs, np.int16), ids)

        return costs


def n_inputs(dimension: int) -> int:
    """Numbers of a pattern and its setting that trees read before a program's code."""
    return SKETCH_WIDTHS[dimension] + N_SETTING


def inputs(features: Floats, setting: RunSetting) -> Floats:
    """Those numbers, (n_inputs(dimension),)."""
    return np.concatenate([np.asarray(features, np.float32), setting.numbers()])


def guess_column(ratios: NDArray[np.floating]) -> Codes:
    """The statistics model's predicted times over the default kernel's, (n,), as a column of codes, (n, 1)."""
    steps = np.round(GUESS_STEPS * np.log(np.asarray(ratios, np.float64)))
    return np.clip(steps, -MAX_GUESS, MAX_GUESS).astype(np.int16)[:, None]


def scorer_of(weights: LearnedWeights) -> Scorer:
    """The cost model of `weights`; RecordError when they cannot be used."""
    try:
        if weights.extractor == BOOSTED:
            trees = Trees.of(weights.tensors, n_inputs(weights.dimension))
            return TreesScorer(trees, weights.dimension, is_wide(weights.op))
        shapes = tuple(weights.tensors[f"final.{at}.weight"].shape for at in (0, 2, 4))
        if shapes != LAYERS:
            raise ValueError(f"layers of shapes {shapes}, not {LAYERS}")
        return NetworkScorer(weights)
    except (ValueError, KeyError, TypeError) as error:
        raise RecordError.broken(f"cost model of {weights.op}", reason=f"it cannot be used: {error}") from error
