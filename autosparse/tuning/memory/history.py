"""Statistics for later processes: prices of tuning steps and gains of tuning.

They are kept in memory and written to the cache at intervals and at exit, because writing a record takes longer than a
small product.
"""

from __future__ import annotations

import atexit
import time
import weakref
from collections.abc import Callable
from typing import Any, Final

from autosparse import cache, forking
from autosparse.core.target import Target
from autosparse.core.values import dataclass, field
from autosparse.targets.priors import number
from autosparse.tuner.search.cost_estimates import CostEstimates
from autosparse.tuner.search.trial import Work

FLUSH_INTERVAL_S: Final = number("records", "flush interval s")
"""Minimum seconds between writes of prices while the process runs."""


@dataclass(slots=True)
class TuningStats:
    """Cost estimates of this machine and gains of tuning, kept in one store."""

    store: cache.Store
    machine_key: str
    cost_estimates: CostEstimates = field(default_factory=CostEstimates)
    clock: Callable[[], float] = time.monotonic
    _flushed_s: float = 0.0

    def __post_init__(self) -> None:
        self.cost_estimates = CostEstimates.from_record(self.store.load("machine", self.machine_key))
        self._flushed_s = self.clock()

    def work(self, kind: str, do: Callable[[], object], *, units: float = 1.0, **terms: Any) -> Work:
        """Return the step that runs `do`, at the price of `units` units of the `kind`; `terms` are further fields."""
        return Work(kind=kind, price_s=self.cost_estimates.price_s(kind, units), units=units, do=do, **terms)

    def flush_if_due(self) -> None:
        """Write prices if the last write was more than FLUSH_INTERVAL_S ago."""
        if self.cost_estimates.is_changed and self.clock() - self._flushed_s > FLUSH_INTERVAL_S:
            self.flush_costs()

    def flush_costs(self) -> None:
        """Write prices now; concurrent processes may overwrite each other, as both measure the same machine."""
        self.cost_estimates.is_changed, self._flushed_s = False, self.clock()
        self.store.save("machine", self.machine_key, self.cost_estimates.to_record())


_tuning_stats: weakref.WeakKeyDictionary[cache.Store, TuningStats] = weakref.WeakKeyDictionary()
_lock = forking.lock()


def tuning_stats_of(store: cache.Store, target: Target) -> TuningStats:
    """Return the statistics kept in `store`; one object per store and process."""
    found = _tuning_stats.get(store)
    if found is None:
        with _lock:
            found = _tuning_stats.get(store)
            if found is None:
                if not _tuning_stats:
                    atexit.register(flush_all)
                found = _tuning_stats[store] = TuningStats(store, f"tuner|{target.key()}")
    return found


AT_EXIT: Final[dict[Callable[[], None], None]] = {}
"""Functions that run before the final write, in this order, each once."""


def flush_all() -> None:
    """Write the statistics of all stores."""
    for function in AT_EXIT:
        function()
    for stats in list(_tuning_stats.values()):
        if stats.cost_estimates.is_changed:
            stats.flush_costs()
