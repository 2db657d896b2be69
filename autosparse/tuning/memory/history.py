"""Statistics for later processes: prices of tuning steps, gains of tuning, and numbers of products.

They are kept in memory and written to the cache at intervals and at exit, because writing a record takes longer than a
small product.
"""

from __future__ import annotations

import atexit
import functools
import os
import threading
import time
import weakref
from collections.abc import Callable
from typing import Any, Final

from autosparse import cache, forking
from autosparse.core.target import Target
from autosparse.core.values import dataclass, field
from autosparse.errors import RecordError
from autosparse.targets.priors import number
from autosparse.tuner.search.cost_estimates import CostEstimates
from autosparse.tuner.search.trial import Work

FLUSH_INTERVAL_S: Final = number("records", "flush interval s")
"""Minimum seconds between writes of prices while the process runs."""
WORTH_WRITING_S: Final = number("records", "worth writing s")
"""Minimum product seconds of a problem whose history is written; for less, writing would cost more than 3 %."""
MAX_CALL_COUNTS: Final = 512
"""Maximum number of problems counted per process."""


@dataclass(slots=True)
class CallCounts:
    """Products, seconds and objects of one problem in this process that are not yet written to its history."""

    n_calls: int = 0
    spent_s: float = 0.0
    n_objects: int = 0


@dataclass(slots=True)
class TuningStats:
    """Cost estimates of this machine and run-count histories of problems, kept in one store; thread-safe."""

    store: cache.Store
    machine_key: str
    cost_estimates: CostEstimates = field(default_factory=CostEstimates)
    clock: Callable[[], float] = time.monotonic
    _call_counts: dict[str, CallCounts] = field(default_factory=dict)
    _flushed_s: float = 0.0
    _lock: threading.Lock = field(default_factory=forking.lock)

    def __post_init__(self) -> None:
        self.cost_estimates = CostEstimates.from_record(self.store.load("machine", self.machine_key))
        self._flushed_s = self.clock()

    def work(self, kind: str, do: Callable[[], object], *, units: float = 1.0, **terms: Any) -> Work:
        """Return the step that runs `do`, at the price of `units` units of the `kind`; `terms` are further fields."""
        return Work(kind=kind, price_s=self.cost_estimates.price_s(kind, units), units=units, do=do, **terms)

    def count(self, key: str, *, n_calls: int, spent_s: float, n_objects: int) -> None:
        """Add `n_calls` products that took `spent_s` seconds, and new objects, to the counts of the problem `key`."""
        with self._lock:
            if key not in self._call_counts and len(self._call_counts) >= MAX_CALL_COUNTS:
                return
            counts = self._call_counts.setdefault(key, CallCounts())
            counts.n_calls += n_calls
            counts.spent_s += spent_s
            counts.n_objects += n_objects

    def runs_expected(self, key: str) -> float | None:
        """Return the products per matrix object that earlier processes suggest; None if fewer than two processes ran.

        It is the least of the history's estimates, since an overestimate spends tuning time in vain.
        """
        try:
            history = cache.History.from_record(self.store.load("history", key))
        except RecordError:
            return None
        if history.n_processes < 2:
            return None
        return min(history.horizon_calls, float(history.process_calls), history.calls_per_object) or None

    def flush_if_due(self) -> None:
        """Write prices if the last write was more than FLUSH_INTERVAL_S ago."""
        if self.cost_estimates.is_changed and self.clock() - self._flushed_s > FLUSH_INTERVAL_S:
            self.flush_costs()

    def flush_costs(self) -> None:
        """Write prices now; concurrent processes may overwrite each other, as both measure the same machine."""
        self.cost_estimates.is_changed, self._flushed_s = False, self.clock()
        self.store.save("machine", self.machine_key, self.cost_estimates.to_record())

    def flush(self) -> None:
        """Write prices and histories at the end of the process."""
        with self._lock:
            call_counts, self._call_counts = self._call_counts, {}
        if self.cost_estimates.is_changed:
            self.flush_costs()
        for key, counts in call_counts.items():
            if counts.spent_s >= WORTH_WRITING_S:
                self.store.update("history", key, _adding(counts))


def _adding(counts: CallCounts) -> Callable[[dict[str, Any] | None], dict[str, Any]]:
    def change(record: dict[str, Any] | None) -> dict[str, Any]:
        try:
            history = cache.History.from_record(record)
        except RecordError:
            history = cache.History()
        return history.observe(
            process=_process_token(), calls=counts.n_calls, spent_s=counts.spent_s, new_objects=counts.n_objects
        ).to_record()

    return change


_tuning_stats: weakref.WeakKeyDictionary[cache.Store, TuningStats] = weakref.WeakKeyDictionary()
_lock = forking.lock()


@functools.cache
def _process_token() -> str:
    """Return a unique name of this process for histories."""
    return f"{os.getpid()}-{os.urandom(4).hex()}"


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


_at_exit: list[Callable[[], None]] = []


def before_flush(report: Callable[[], None]) -> None:
    """Register `report` to be called before the final write, so that it can add its latest counts."""
    _at_exit.append(report)


def flush_all() -> None:
    """Write the statistics of all stores."""
    for report in _at_exit:
        report()
    for stats in list(_tuning_stats.values()):
        stats.flush()


@forking.in_child
def _forget_counts() -> None:
    """Discard counts in a forked child; the parent writes them."""
    _process_token.cache_clear()
    for stats in list(_tuning_stats.values()):
        stats._call_counts = {}
