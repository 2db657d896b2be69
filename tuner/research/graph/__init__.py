"""Search on a graph of programs (WACO section 4.2), with edges by embedding distance and predicted costs.

`build` makes the graph (with hnswlib), `program_graph` stores it, and `search` searches it; the last two need NumPy
only.
"""

from __future__ import annotations

from autosparse.tuner.research.graph.program_graph import ProgramGraph
from autosparse.tuner.research.graph.search import Found, best_first, exhaustive

__all__ = ["Found", "ProgramGraph", "best_first", "exhaustive"]
