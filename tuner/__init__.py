"""Search for a fast SuperSchedule of a problem, with trials, clock and cost model as arguments."""

from __future__ import annotations

from typing import TYPE_CHECKING

from autosparse import forking

if TYPE_CHECKING:
    from autosparse.tuner.search.loop import Progress
    from autosparse.tuner.search.search import Search

__all__ = ["Progress", "Search"]
_HOMES = {"Progress": "autosparse.tuner.search.loop", "Search": "autosparse.tuner.search.search"}
__getattr__ = forking.lazy_names(__name__, _HOMES)
