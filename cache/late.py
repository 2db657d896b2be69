"""Delayed writing: a daemon thread writes postponed records of stores, and the process writes the rest at exit."""

from __future__ import annotations

import atexit
import functools
import queue
import threading
import time
import weakref
from typing import Final, Protocol

from autosparse import forking

DELAY_S: Final = 0.02
"""Delay in seconds between a record and its writing, so that products after a tuning are not slowed down."""


class DeferringStore(Protocol):
    """Object with postponed records: a store."""

    def flush(self) -> None:
        """Write the postponed records."""


_stores: weakref.WeakSet[DeferringStore] = weakref.WeakSet()
"""Stores that have ever postponed a record."""
_waiting: queue.SimpleQueue[weakref.ref[DeferringStore]] = queue.SimpleQueue()
_writer: threading.Thread | None = None
_mutex = forking.lock()
_writing = forking.lock()
"""Lock held while the thread writes, so that the process does not end in the middle of a file."""
_is_over = False


def write_soon(store: DeferringStore) -> None:
    """Call `store.flush()` soon, at the latest when the process exits."""
    global _writer
    with _mutex:
        _stores.add(store)
        if _writer is None or not _writer.is_alive():
            _at_exit()
            writer = threading.Thread(target=_write, name="autosparse-cache", daemon=True)
            try:
                writer.start()
            except RuntimeError:  # no memory for a stack: the next call tries again, and the exit writes the rest
                return
            _writer = writer
    _waiting.put(weakref.ref(store))


def flush_all_stores() -> None:
    """Write all postponed records now."""
    for store in list(_stores):
        store.flush()


def _finish() -> None:
    """Let the thread finish its current write, then write the rest (called at exit)."""
    global _is_over
    with _writing:
        _is_over = True
    flush_all_stores()


def _write() -> None:
    while True:
        store = _waiting.get()()
        time.sleep(DELAY_S)
        with _writing:
            if store is not None and not _is_over:
                store.flush()
        del store


@forking.in_child
def _forget() -> None:
    """Reset the state in a forked child, where the thread does not exist; the next postponed record starts another."""
    global _writer, _waiting
    _writer, _waiting = None, queue.SimpleQueue()


_at_exit: Final = functools.cache(lambda: atexit.register(_finish))  # registered once, when the first thread starts
