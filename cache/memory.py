"""In-process copy of cache entries, including their absence, so that a repeated lookup costs one dict access."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from autosparse.cache.envelope import Envelope

from autosparse import forking

MAX_REMEMBERED: Final = 4096
"""Maximum number of records, and of absent names, kept in memory."""
ABSENCE_LIFE_S: Final = 30.0  # seconds after which another process may have written the entry

Name = tuple[str, str]  # (kind, key)


class Memory:
    """Cache in memory of envelopes, and of names known to be absent; a name is (kind, key), old ones are dropped.

    Single dict operations are atomic, so readers take no lock.
    """

    def __init__(self, *, clock: Callable[[], float], max_entries: int = MAX_REMEMBERED) -> None:
        self._clock = clock
        self._max_entries = max_entries
        self._found: dict[Name, Envelope] = {}
        self._absent_until_s: dict[Name, float] = {}
        self._mutex = forking.lock()

    def get(self, name: Name) -> Envelope | None:
        """Return the envelope stored under `name`, a pair (kind, key), or None."""
        return self._found.get(name)

    def is_absent(self, name: Name) -> bool:
        """Return whether a recent lookup of `name` found nothing."""
        until_s = self._absent_until_s.get(name)
        return until_s is not None and self._clock() < until_s

    def put(self, envelope: Envelope) -> None:
        """Store `envelope`."""
        with self._mutex:
            _make_room(self._found, self._max_entries)
            self._found[envelope.kind, envelope.key] = envelope
            self._absent_until_s.pop((envelope.kind, envelope.key), None)

    def put_absent(self, name: Name) -> None:
        """Remember for a limited time that there is no entry `name`, a pair (kind, key)."""
        with self._mutex:
            _make_room(self._absent_until_s, self._max_entries)
            self._absent_until_s[name] = self._clock() + ABSENCE_LIFE_S

    def forget(self, name: Name | None = None) -> None:
        """Drop what is stored under `name`, a pair (kind, key); None drops everything."""
        with self._mutex:
            for known in (self._found, self._absent_until_s):
                if name is None:
                    known.clear()
                else:
                    known.pop(name, None)

    def envelopes(self) -> list[Envelope]:
        """Return all stored envelopes."""
        with self._mutex:
            return list(self._found.values())


def _make_room(known: dict[Name, Envelope] | dict[Name, float], max_entries: int) -> None:
    if len(known) >= max_entries:
        for name in list(known)[: max(1, max_entries // 4)]:
            del known[name]
