"""Writing a little later: one daemon thread settles stores that have put records off; at exit the rest is written."""

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
"""Between a record and its writing: what follows a tuning are products, which are not to wait for it."""


class DeferringStore(Protocol):
    """What puts records off: a store."""

    def flush(self) -> None:
        """Write what was put off."""


_stores: weakref.WeakSet[DeferringStore] = weakref.WeakSet()
"""Those that have ever put something off."""
_waiting: queue.SimpleQueue[weakref.ref[DeferringStore]] = queue.SimpleQueue()
_writer: threading.Thread | None = None
_mutex = forking.lock()
_writing = forking.lock()
"""Held while the thread writes: the process does not end in the middle of a file."""
_is_over = False


def write_soon(store: DeferringStore) -> None:
    """Have `store.flush()` called soon, by the exit of the process at the latest."""
    global _writer
    with _mutex:
        _stores.add(store)
        if _writer is None or not _writer.is_alive():
            _at_exit()
            writer = threading.Thread(target=_write, name="autosparse-cache", daemon=True)
            try:
                writer.start()
            except RuntimeError:  # no memory for a stack: the next call tries again, and the exit writes what is left
                return
            _writer = writer
    _waiting.put(weakref.ref(store))


def flush_all_stores() -> None:
    """Write everything that was put off, now."""
    for store in list(_stores):
        store.flush()


def _finish() -> None:
    """At exit: wait for the thread, then write the rest."""
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
    """In a forked child the thread does not exist; whoever asks next starts another."""
    global _writer, _waiting
    _writer, _waiting = None, queue.SimpleQueue()


_at_exit: Final = functools.cache(lambda: atexit.register(_finish))  # once, when there is a thread
