"""Calls that a process counts before it pays for a search: of an einsum, or of a product of two sparse matrices."""

from __future__ import annotations

from collections import OrderedDict
from typing import TypeVar

from autosparse import config, forking
from autosparse.core.values import dataclass

K = TypeVar("K")
V = TypeVar("V")


class Recent(OrderedDict[K, V]):
    """Dictionary of the `most` entries that were made last; several threads may add to it."""

    def __init__(self, most: int) -> None:
        super().__init__()
        self._most, self._mutex = most, forking.lock()

    def keep(self, key: K, value: V) -> V:
        """Store `value` unless there is a value of `key`, and return what is stored; the oldest entries are dropped."""
        with self._mutex:
            found = self.setdefault(key, value)
            while len(self) > self._most:
                self.popitem(last=False)
        return found


@dataclass(eq=False)
class ServedCalls:
    """Number of calls of one problem and their total duration in seconds."""

    n_calls: int = 0
    served_s: float = 0.0

    def count(self, elapsed_s: float) -> None:
        """Count one call."""
        self.n_calls += 1
        self.served_s += elapsed_s

    def expected_s(self, least_calls: int = 1) -> float:
        """Return the seconds of these calls, or of those that the option `runs` announces; 0 before `least_calls`."""
        runs = max(self.n_calls, config.get_options().runs or 0)
        if not self.n_calls or runs < least_calls:
            return 0.0
        return max(self.served_s, runs * self.served_s / self.n_calls)

    def pays(self, price_s: float, *, least_calls: int) -> bool:
        """Return whether these calls take at least `price_s` seconds, and are at least `least_calls`."""
        expected_s = self.expected_s(least_calls)
        return expected_s > 0.0 and expected_s >= price_s
