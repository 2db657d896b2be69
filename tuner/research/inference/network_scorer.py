"""Scorer of WACO's network and its variants: embeddings of pattern and programs, then dense layers (section 4.1).

It needs NumPy and the runtime only, not torch.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np
from autosparse.tuner.features.setting import RunSetting
from autosparse.tuner.learned.codes import Structure
from autosparse.tuner.learned.scorers import Codes, Floats, Ids, Programs
from autosparse.tuner.learned.weights import LearnedWeights, linear, rectified
from autosparse.tuner.research.inference.embeddings import embed_pattern, embed_programs, network_weights

from autosparse.core.dtypes import NarrowReal
from autosparse.core.values import dataclass

EMBEDDED: Final = 128
"""Length of the embedding of a pattern and of a program."""
LAYERS: Final = ((128, 2 * EMBEDDED), (64, 128), (1, 64))
"""Shapes of a network's final layers, ``final.0``, ``final.2`` and ``final.4``."""


@dataclass(frozen=True, eq=False)
class NetworkScorer:
    """Scorer of WACO's network and its variants."""

    weights: LearnedWeights
    n_features: int = EMBEDDED
    reads_guesses: bool = False

    def features(self, pattern: Structure) -> Floats:
        """Return the pattern's embedding."""
        return embed_pattern(pattern, self.weights)

    def programs(self, rows: Codes) -> Floats:
        """Return the programs' contribution to the predictor's first layer."""
        first = self.weights.tensors["final.0.weight"][:, EMBEDDED:]
        return np.asarray(embed_programs(rows, self.weights) @ first.T, NarrowReal)

    def on(self, features: Floats, setting: RunSetting) -> Callable[[Programs, Ids | None], Floats]:
        """Return the final layers applied to this pattern; the setting has no effect."""
        tensors = self.weights.tensors
        share = tensors["final.0.weight"][:, :EMBEDDED] @ features + tensors["final.0.bias"]

        def costs(programs: Programs, ids: Ids | None = None) -> Floats:
            hidden = rectified(share + (programs if ids is None else programs[ids]))
            hidden = rectified(linear(tensors, "final.2", hidden))
            return linear(tensors, "final.4", hidden)[:, 0]

        return costs


def network_scorer(weights: LearnedWeights) -> NetworkScorer:
    """Return the scorer of a network's weights; raise ValueError or KeyError for invalid final layers."""
    shapes = tuple(weights.tensors[f"final.{at}.weight"].shape for at in (0, 2, 4))
    if shapes != LAYERS:
        raise ValueError(f"layers of shapes {shapes}, not {LAYERS}")
    return NetworkScorer(network_weights(weights))
