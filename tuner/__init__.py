"""Problem -> good SuperSchedule. Receives trials, clock and model as arguments; imports neither kernels nor cache."""

from __future__ import annotations

from autosparse.tuner.search.loop import Progress, tune
from autosparse.tuner.search.search import Search

__all__ = ["Progress", "Search", "tune"]
