"""Search on a graph of programs (WACO section 4.2), with edges by embedding distance and predicted costs.

`build` makes the graph (with hnswlib); `search` holds and searches it and needs NumPy only.
"""

from __future__ import annotations

from autosparse.tuner.research.graph.search import Found, ProgramGraph, best_first, exhaustive

__all__ = ["Found", "ProgramGraph", "best_first", "exhaustive"]
