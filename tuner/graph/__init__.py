"""Search for schedules on a graph of programs (WACO §4.2): neighbours by embedding, distance by predicted cost.

`build` makes the graph (needs hnswlib), `program_graph` keeps it, `search` walks it; the last two need NumPy only.
"""

from __future__ import annotations

from autosparse.tuner.graph.program_graph import ProgramGraph
from autosparse.tuner.graph.search import Found, best_first, exhaustive

__all__ = ["Found", "ProgramGraph", "best_first", "exhaustive"]
