"""Search for a fast SuperSchedule of a problem. Trials, clock and cost model are arguments; no kernels, no cache."""

from __future__ import annotations

from autosparse.tuner.search.loop import Progress
from autosparse.tuner.search.search import Search

__all__ = ["Progress", "Search"]
