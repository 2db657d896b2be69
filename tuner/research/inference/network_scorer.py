"""Scorer of WACO's network and its variants: embeddings of pattern and programs, then dense layers (section 4.1).

The programs of a file with a graph are searched on it (section 4.2.2). The module needs NumPy and the runtime, neither
torch nor hnswlib.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np
from autosparse.tuner.features.setting import RunSetting
from autosparse.tuner.learned.codes import Structure
from autosparse.tuner.learned.predict import PORTFOLIO
from autosparse.tuner.learned.scorers import Codes, Floats, Ids, Programs, Ranked, all_ranked
from autosparse.tuner.learned.weights import LearnedWeights, linear, rectified
from autosparse.tuner.research.graph import ProgramGraph, best_first
from autosparse.tuner.research.inference.embeddings import embed_pattern, embed_programs

from autosparse.core.values import dataclass

EMBEDDED: Final = 128
"""Length of the embedding of a pattern and of a program."""
LAYERS: Final = ((128, 2 * EMBEDDED), (64, 128), (1, 64))
"""Shapes of a network's final layers, ``final.0``, ``final.2`` and ``final.4``."""


@dataclass(frozen=True, eq=False)
class NetworkScorer:
    """Scorer of WACO's network and its variants."""

    weights: LearnedWeights
    graph: ProgramGraph | None = None
    n_features: int = EMBEDDED
    reads_guesses: bool = False

    def features(self, pattern: Structure) -> Floats:
        """Return the pattern's embedding."""
        return embed_pattern(pattern, self.weights)

    def programs(self, rows: Codes) -> Floats:
        """Return the programs' contribution to the predictor's first layer."""
        first = self.weights.tensors["final.0.weight"][:, EMBEDDED:]
        return np.asarray(embed_programs(rows, self.weights) @ first.T, np.float32)

    def on(self, features: Floats, setting: RunSetting) -> Callable[[Programs, Ids | None], Floats]:
        """Return the final layers applied to this pattern; the setting has no effect."""
        tensors = self.weights.tensors
        share = tensors["final.0.weight"][:, :EMBEDDED] @ features + tensors["final.0.bias"]

        def costs(programs: Programs, ids: Ids | None = None) -> Floats:
            hidden = rectified(share + (programs if ids is None else programs[ids]))
            hidden = rectified(linear(tensors, "final.2", hidden))
            return linear(tensors, "final.4", hidden)[:, 0]

        return costs

    def ranked(self, costs: Callable[[Ids | None], Floats], n: int) -> Ranked:
        """Return the best `n` programs that a search on the graph finds; all programs without a graph, or for all."""
        if self.graph is None or n >= len(self.graph):
            return all_ranked(costs(None))
        found = best_first(self.graph.neighbours, costs, self.graph.entries, n_best=n, beam=n)
        return Ranked(found.ids, found.costs, found.n_scored)


def network_scorer(weights: LearnedWeights) -> NetworkScorer:
    """Return the scorer of a network's weights; raise ValueError or KeyError for invalid final layers or graphs."""
    shapes = tuple(weights.tensors[f"final.{at}.weight"].shape for at in (0, 2, 4))
    if shapes != LAYERS:
        raise ValueError(f"layers of shapes {shapes}, not {LAYERS}")
    graph = ProgramGraph.of(weights.tensors)
    if graph is not None and len(graph) != len(weights.tensors[PORTFOLIO]):
        raise ValueError(f"a graph of {len(graph)} nodes for {len(weights.tensors[PORTFOLIO])} programs")
    return NetworkScorer(weights, graph)
